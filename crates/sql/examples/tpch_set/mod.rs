//! A small set of rows like those of TPC-H, and its 22 queries. Money is whole cents and shares are
//! whole percent, so that no sum depends on the order of its rows.

use silica_base::Prng;
use silica_sql::sql::{Sql, Value};
use std::path::Path;

const SCHEMA: &str = "
CREATE TABLE region (r_regionkey INTEGER PRIMARY KEY, r_name TEXT);
CREATE TABLE nation (n_nationkey INTEGER PRIMARY KEY, n_name TEXT, n_regionkey INT);
CREATE TABLE supplier (s_suppkey INTEGER PRIMARY KEY, s_name TEXT, s_address TEXT,
  s_nationkey INT, s_phone TEXT, s_acctbal INT, s_comment TEXT);
CREATE TABLE customer (c_custkey INTEGER PRIMARY KEY, c_name TEXT, c_address TEXT,
  c_nationkey INT, c_phone TEXT, c_acctbal INT, c_mktsegment TEXT, c_comment TEXT);
CREATE TABLE part (p_partkey INTEGER PRIMARY KEY, p_name TEXT, p_mfgr TEXT, p_brand TEXT,
  p_type TEXT, p_size INT, p_container TEXT, p_retailprice INT);
CREATE TABLE partsupp (ps_partkey INT, ps_suppkey INT, ps_availqty INT, ps_supplycost INT,
  PRIMARY KEY (ps_partkey, ps_suppkey)) WITHOUT ROWID;
CREATE TABLE orders (o_orderkey INTEGER PRIMARY KEY, o_custkey INT, o_orderstatus TEXT,
  o_totalprice INT, o_orderdate TEXT, o_orderpriority TEXT, o_shippriority INT, o_comment TEXT);
CREATE TABLE lineitem (l_orderkey INT, l_linenumber INT, l_partkey INT, l_suppkey INT,
  l_quantity INT, l_extendedprice INT, l_discount INT, l_tax INT, l_returnflag TEXT,
  l_linestatus TEXT, l_shipdate TEXT, l_commitdate TEXT, l_receiptdate TEXT,
  l_shipinstruct TEXT, l_shipmode TEXT, PRIMARY KEY (l_orderkey, l_linenumber));
CREATE INDEX l_part ON lineitem (l_partkey, l_suppkey);
CREATE INDEX l_ship ON lineitem (l_shipdate);
CREATE INDEX o_cust ON orders (o_custkey);
CREATE INDEX o_date ON orders (o_orderdate);
";

/// The 22 queries.
pub(crate) const QUERIES: [&str; 22] = [
    "SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice),
       sum(l_extendedprice * (100 - l_discount)),
       sum(l_extendedprice * (100 - l_discount) * (100 + l_tax)), avg(l_quantity),
       avg(l_extendedprice), avg(l_discount), count(*)
     FROM lineitem WHERE l_shipdate <= date('1998-12-01', '-90 days')
     GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus",
    "SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
     FROM part, supplier, partsupp, nation, region
     WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size < 15
       AND p_type LIKE '%BRASS' AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
       AND r_name = 'EUROPE' AND ps_supplycost = (SELECT min(ps_supplycost)
         FROM partsupp, supplier, nation, region WHERE p_partkey = ps_partkey
         AND s_suppkey = ps_suppkey AND s_nationkey = n_nationkey
         AND n_regionkey = r_regionkey AND r_name = 'EUROPE')
     ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100",
    "SELECT l_orderkey, sum(l_extendedprice * (100 - l_discount)) AS revenue, o_orderdate,
       o_shippriority
     FROM customer, orders, lineitem
     WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
       AND o_orderdate < '1995-03-15' AND l_shipdate > '1995-03-15'
     GROUP BY l_orderkey, o_orderdate, o_shippriority
     ORDER BY revenue DESC, o_orderdate, l_orderkey LIMIT 10",
    "SELECT o_orderpriority, count(*) FROM orders
     WHERE o_orderdate >= '1993-07-01' AND o_orderdate < date('1993-07-01', '+3 months')
       AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey
         AND l_commitdate < l_receiptdate)
     GROUP BY o_orderpriority ORDER BY o_orderpriority",
    "SELECT n_name, sum(l_extendedprice * (100 - l_discount)) AS revenue
     FROM customer, orders, lineitem, supplier, nation, region
     WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
       AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey
       AND n_regionkey = r_regionkey AND r_name = 'ASIA' AND o_orderdate >= '1994-01-01'
       AND o_orderdate < date('1994-01-01', '+1 year')
     GROUP BY n_name ORDER BY revenue DESC, n_name",
    "SELECT sum(l_extendedprice * l_discount) FROM lineitem
     WHERE l_shipdate >= '1994-01-01' AND l_shipdate < date('1994-01-01', '+1 year')
       AND l_discount BETWEEN 5 AND 7 AND l_quantity < 24",
    "SELECT supp_nation, cust_nation, l_year, sum(volume) FROM (
       SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation,
         substr(l_shipdate, 1, 4) AS l_year, l_extendedprice * (100 - l_discount) AS volume
       FROM supplier, lineitem, orders, customer, nation n1, nation n2
       WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey
         AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey
         AND ((n1.n_name = 'NATION 1' AND n2.n_name = 'NATION 2')
           OR (n1.n_name = 'NATION 2' AND n2.n_name = 'NATION 1'))
         AND l_shipdate BETWEEN '1995-01-01' AND '1996-12-31')
     GROUP BY supp_nation, cust_nation, l_year ORDER BY supp_nation, cust_nation, l_year",
    "SELECT o_year, sum(CASE WHEN nation = 'NATION 1' THEN volume ELSE 0 END) * 1000 / sum(volume)
     FROM (SELECT substr(o_orderdate, 1, 4) AS o_year,
         l_extendedprice * (100 - l_discount) AS volume, n2.n_name AS nation
       FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region
       WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey
         AND o_custkey = c_custkey AND c_nationkey = n1.n_nationkey
         AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA'
         AND s_nationkey = n2.n_nationkey
         AND o_orderdate BETWEEN '1995-01-01' AND '1996-12-31' AND p_type LIKE 'ECONOMY%')
     GROUP BY o_year ORDER BY o_year",
    "SELECT nation, o_year, sum(amount) FROM (
       SELECT n_name AS nation, substr(o_orderdate, 1, 4) AS o_year,
         l_extendedprice * (100 - l_discount) - 100 * ps_supplycost * l_quantity AS amount
       FROM part, supplier, lineitem, partsupp, orders, nation
       WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey
         AND p_partkey = l_partkey AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey
         AND p_name LIKE '%green%')
     GROUP BY nation, o_year ORDER BY nation, o_year DESC",
    "SELECT c_custkey, c_name, sum(l_extendedprice * (100 - l_discount)) AS revenue, c_acctbal,
       n_name, c_address, c_phone, c_comment
     FROM customer, orders, lineitem, nation
     WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= '1993-10-01'
       AND o_orderdate < date('1993-10-01', '+3 months') AND l_returnflag = 'R'
       AND c_nationkey = n_nationkey
     GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
     ORDER BY revenue DESC, c_custkey LIMIT 20",
    "SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value
     FROM partsupp, supplier, nation
     WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'NATION 1'
     GROUP BY ps_partkey HAVING sum(ps_supplycost * ps_availqty) * 1000 > (
       SELECT sum(ps_supplycost * ps_availqty) FROM partsupp, supplier, nation
       WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'NATION 1')
     ORDER BY value DESC, ps_partkey",
    "SELECT l_shipmode,
       sum(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END),
       sum(CASE WHEN o_orderpriority NOT IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END)
     FROM orders, lineitem
     WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP')
       AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
       AND l_receiptdate >= '1994-01-01' AND l_receiptdate < date('1994-01-01', '+1 year')
     GROUP BY l_shipmode ORDER BY l_shipmode",
    "SELECT c_count, count(*) AS custdist FROM (
       SELECT c_custkey, count(o_orderkey) AS c_count FROM customer
       LEFT OUTER JOIN orders ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%request%'
       GROUP BY c_custkey)
     GROUP BY c_count ORDER BY custdist DESC, c_count DESC",
    "SELECT 10000 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (100 - l_discount)
         ELSE 0 END) / sum(l_extendedprice * (100 - l_discount))
     FROM lineitem, part
     WHERE l_partkey = p_partkey AND l_shipdate >= '1995-09-01'
       AND l_shipdate < date('1995-09-01', '+1 month')",
    "WITH revenue (supplier_no, total_revenue) AS (
       SELECT l_suppkey, sum(l_extendedprice * (100 - l_discount)) FROM lineitem
       WHERE l_shipdate >= '1996-01-01' AND l_shipdate < date('1996-01-01', '+3 months')
       GROUP BY l_suppkey)
     SELECT s_suppkey, s_name, s_address, s_phone, total_revenue FROM supplier, revenue
     WHERE s_suppkey = supplier_no AND total_revenue = (SELECT max(total_revenue) FROM revenue)
     ORDER BY s_suppkey",
    "SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS supplier_cnt
     FROM partsupp, part
     WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM%'
       AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9)
       AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier
         WHERE s_comment LIKE '%special%request%')
     GROUP BY p_brand, p_type, p_size ORDER BY supplier_cnt DESC, p_brand, p_type, p_size",
    "SELECT sum(l_extendedprice) / 7 FROM lineitem, part
     WHERE p_partkey = l_partkey AND p_brand LIKE 'Brand#2%' AND p_container = 'MED BOX'
       AND l_quantity < (SELECT avg(l_quantity) / 2 FROM lineitem WHERE l_partkey = p_partkey)",
    "SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)
     FROM customer, orders, lineitem
     WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey
         HAVING sum(l_quantity) > 200)
       AND c_custkey = o_custkey AND o_orderkey = l_orderkey
     GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
     ORDER BY o_totalprice DESC, o_orderdate, o_orderkey LIMIT 100",
    "SELECT sum(l_extendedprice * (100 - l_discount)) FROM lineitem, part
     WHERE p_partkey = l_partkey AND l_shipmode IN ('AIR', 'REG AIR')
       AND ((p_brand LIKE 'Brand#1%' AND p_container LIKE 'SM%' AND l_quantity BETWEEN 1 AND 20)
         OR (p_brand LIKE 'Brand#2%' AND p_container LIKE 'MED%' AND l_quantity BETWEEN 10 AND 30)
         OR (p_brand LIKE 'Brand#3%' AND p_container LIKE 'LG%' AND l_quantity BETWEEN 20 AND 40))",
    "SELECT s_name, s_address FROM supplier, nation
     WHERE s_suppkey IN (SELECT ps_suppkey FROM partsupp
         WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%')
         AND ps_availqty * 2 > (SELECT sum(l_quantity) FROM lineitem
           WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey
             AND l_shipdate >= '1994-01-01' AND l_shipdate < date('1994-01-01', '+2 years')))
       AND s_nationkey = n_nationkey AND n_regionkey < 4
     ORDER BY s_name",
    "SELECT s_name, count(*) AS numwait FROM supplier, lineitem l1, orders, nation
     WHERE s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F'
       AND l1.l_receiptdate > l1.l_commitdate
       AND EXISTS (SELECT * FROM lineitem l2 WHERE l2.l_orderkey = l1.l_orderkey
         AND l2.l_suppkey <> l1.l_suppkey)
       AND NOT EXISTS (SELECT * FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey
         AND l3.l_suppkey <> l1.l_suppkey AND l3.l_receiptdate > l3.l_commitdate)
       AND s_nationkey = n_nationkey
     GROUP BY s_name ORDER BY numwait DESC, s_name LIMIT 100",
    "SELECT cntrycode, count(*), sum(c_acctbal) FROM (
       SELECT substr(c_phone, 1, 2) AS cntrycode, c_acctbal FROM customer
       WHERE substr(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')
         AND c_acctbal > (SELECT avg(c_acctbal) FROM customer WHERE c_acctbal > 0)
         AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey
           AND o_orderpriority = '1-URGENT'))
     GROUP BY cntrycode ORDER BY cntrycode",
];

/// Rows, the same for each storage.
struct Rows(Prng);

impl Rows {
    fn below(&mut self, bound: u64) -> Value {
        Value::from(self.number(bound))
    }

    fn number(&mut self, bound: u64) -> i64 {
        self.0.below(bound) as i64
    }

    fn word(&mut self, of: &[&str]) -> String {
        of[self.0.below(of.len() as u64) as usize].to_string()
    }

    fn one(&mut self, of: &[&str]) -> Value {
        Value::from(self.word(of).as_str())
    }

    fn words(&mut self, parts: &[&[&str]]) -> Value {
        let words: Vec<String> = parts.iter().map(|part| self.word(part)).collect();
        Value::from(words.join(" ").as_str())
    }

    /// A day so many after the first of 1992.
    fn day(number: i64) -> Value {
        let (mut year, mut left) = (1992, number);
        let leap = |year: i64| year % 4 == 0;
        while left >= 365 + i64::from(leap(year)) {
            left -= 365 + i64::from(leap(year));
            year += 1;
        }
        let mut month = 0;
        let days = |month: usize| match month {
            1 => 28 + i64::from(leap(year)),
            3 | 5 | 8 | 10 => 30,
            _ => 31,
        };
        while left >= days(month) {
            left -= days(month);
            month += 1;
        }
        Value::from(format!("{year}-{:02}-{:02}", month + 1, left + 1).as_str())
    }

    fn comment(&mut self) -> Value {
        let first = ["special", "quick", "final", "bold", "silent"];
        self.words(&[
            &first,
            &["requests", "deposits", "accounts", "packages"],
            &["sleep", "haggle"],
        ])
    }

    fn phone(&mut self) -> Value {
        let (country, rest) = (10 + self.number(25), self.number(10_000_000));
        Value::from(format!("{country}-{rest:07}").as_str())
    }
}

fn named(what: &str, number: i64) -> Value {
    Value::from(format!("{what} {number}").as_str())
}

fn insert(sql: &mut Sql, table: &str, row: &[Value]) {
    let marks = vec!["?"; row.len()].join(", ");
    sql.execute(&format!("INSERT INTO {table} VALUES ({marks})"), row).expect("inserted");
}

const COLORS: [&str; 6] = ["green", "forest", "red", "blue", "ivory", "peach"];
const TYPES: [&str; 5] = ["PROMO", "ECONOMY", "MEDIUM", "SMALL", "STANDARD"];
const METALS: [&str; 4] = ["BRASS", "TIN", "STEEL", "COPPER"];
const PRIORITIES: [&str; 5] = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"];
const MODES: [&str; 7] = ["MAIL", "SHIP", "AIR", "REG AIR", "RAIL", "TRUCK", "FOB"];
const SEGMENTS: [&str; 3] = ["BUILDING", "MACHINERY", "FURNITURE"];

/// Fills the tables that are the same in each size, and those of parts and suppliers.
fn fill_parts(sql: &mut Sql, rows: &mut Rows, parts: i64, suppliers: i64) {
    for (key, name) in (0_i64..).zip(["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]) {
        insert(sql, "region", &[Value::from(key), Value::from(name)]);
    }
    for key in 0..25_i64 {
        insert(sql, "nation", &[Value::from(key), named("NATION", key), Value::from(key % 5)]);
    }
    for key in 1..=suppliers {
        let (nation, balance) = (Value::from(key * 7 % 25), rows.below(1_000_000));
        let (phone, comment) = (rows.phone(), rows.comment());
        let names = (named("Supplier", key), named("Street", key));
        let row = [Value::from(key), names.0, names.1, nation, phone, balance, comment];
        insert(sql, "supplier", &row);
    }
    for key in 1..=parts {
        let name = rows.words(&[&COLORS, &COLORS]);
        let (maker, brand) = (rows.number(5), 11 + rows.number(45));
        let kind = rows.words(&[&TYPES, &METALS]);
        let (size, price) = (rows.below(50), rows.below(200_000));
        let box_of = rows.words(&[&["SM", "MED", "LG"], &["BOX", "CASE", "PACK"]]);
        let brand = Value::from(format!("Brand#{brand}").as_str());
        let row = [Value::from(key), name, named("Maker", maker), brand, kind, size, box_of, price];
        insert(sql, "part", &row);
        let first = rows.number(suppliers as u64);
        for n in 0..4 {
            let supplier = Value::from(1 + (first + n * (suppliers / 4)) % suppliers);
            let row = [Value::from(key), supplier, rows.below(10_000), rows.below(100_000)];
            insert(sql, "partsupp", &row);
        }
    }
}

/// Fills the tables of customers and their orders.
fn fill_orders(sql: &mut Sql, rows: &mut Rows, orders: i64, parts: i64, suppliers: i64) {
    let customers = orders / 10;
    for key in 1..=customers {
        let (nation, phone) = (Value::from(key % 25), rows.phone());
        let (balance, segment) = (rows.below(1_000_000), rows.one(&SEGMENTS));
        let names = (named("Customer", key), named("Street", key));
        let comment = rows.comment();
        let row = [Value::from(key), names.0, names.1, nation, phone, balance, segment, comment];
        insert(sql, "customer", &row);
    }
    for key in 1..=orders {
        // A third of the customers order nothing.
        let customer = 1 + rows.number(customers as u64 * 2 / 3);
        let day = rows.number(2_400);
        let status = rows.one(&["F", "O", "P"]);
        let (price, priority) = (rows.below(50_000_000), rows.one(&PRIORITIES));
        let (date, comment) = (Rows::day(day), rows.comment());
        let row = [
            Value::from(key),
            Value::from(customer),
            status,
            price,
            date,
            priority,
            Value::from(0_i64),
            comment,
        ];
        insert(sql, "orders", &row);
        for line in 1..=1 + rows.number(7) {
            let (part, supplier) =
                (1 + rows.number(parts as u64), 1 + rows.number(suppliers as u64));
            let ship = day + 1 + rows.number(120);
            let (commit, receipt) = (day + 30 + rows.number(60), ship + 1 + rows.number(30));
            let row = [
                Value::from(key),
                Value::from(line),
                Value::from(part),
                Value::from(supplier),
                Value::from(1 + rows.number(50)),
                rows.below(10_000_000),
                rows.below(11),
                rows.below(9),
                rows.one(&["R", "A", "N"]),
                rows.one(&["O", "F"]),
                Rows::day(ship),
                Rows::day(commit),
                Rows::day(receipt),
                rows.one(&["DELIVER IN PERSON", "NONE"]),
                rows.one(&MODES),
            ];
            insert(sql, "lineitem", &row);
        }
    }
}

/// The database `storage.db` in a directory, whose storage is that one. `more` is what its URI says
/// further.
pub(crate) fn open(directory: &Path, storage: &str, more: &str) -> Sql {
    let path = directory.join(format!("{storage}.db"));
    let sql = Sql::open(format!("file:{}?storage={storage}{more}", path.display()));
    let mut sql = sql.expect("opens");
    sql.run("PRAGMA synchronous = OFF").expect("a pragma");
    sql
}

/// Makes the tables and fills them with so many orders, in one transaction.
pub(crate) fn fill(sql: &mut Sql, orders: i64) {
    sql.run(SCHEMA).expect("tables");
    let (parts, suppliers) = (orders / 5, (orders / 50).max(20));
    let mut rows = Rows(Prng::new(22));
    sql.run("BEGIN").expect("begun");
    fill_parts(sql, &mut rows, parts, suppliers);
    fill_orders(sql, &mut rows, orders, parts, suppliers);
    sql.run("COMMIT; ANALYZE").expect("filled");
}
