#!/bin/sh
# Makes the certificates of the tests again, by openssl 3: valid from 2020 to 2120, but for one.
# They guard nothing: everyone has their keys.
set -eu
cd "$(dirname "$0")"
mkdir work
trap 'rm -rf work' EXIT
: > work/index
echo 01 > work/serial
cat > work/conf <<'CONF'
[ca]
default_ca = authority
[authority]
dir = work
database = work/index
new_certs_dir = work
serial = work/serial
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
[self]
basicConstraints = critical,CA:true
keyUsage = critical,keyCertSign
[server]
subjectAltName = DNS:localhost,IP:127.0.0.1
[client]
extendedKeyUsage = clientAuth
CONF
# sign NAME EXTENSIONS END OPTION...: a key and a certificate that ends in the year END.
sign() {
    name=$1 extensions=$2 end=$3
    shift 3
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$name.key"
    openssl req -new -key "$name.key" -subj "/CN=$name" -out work/request
    openssl ca -batch -notext -config work/conf -extensions "$extensions" -in work/request \
        -startdate 20200101000000Z -enddate "${end}0101000000Z" -out "$name.pem" "$@"
}
by_authority="-cert authority.pem -keyfile authority.key"
sign authority self 2120 -selfsign -keyfile authority.key
sign server server 2120 $by_authority
sign client client 2120 $by_authority
sign expired server 2021 $by_authority
rm authority.key
