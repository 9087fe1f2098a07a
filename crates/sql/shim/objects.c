/*
** silica_hash, silica_list, silica_set, silica_zset, silica_stream: the elements of an object as
** rows. src/objects.rs reads them.
**
**   SELECT field, value FROM silica_hash('user:1');
**   SELECT member FROM silica_zset('board', 3) ORDER BY score LIMIT 10;
**
** 1. The first argument is the object's key, the second the number of a database, or the name of a
**    keyspace; without it database 0.
** 2. Fields and members are TEXT, whatever their bytes, so that SQL's order is theirs. A value is
**    TEXT if it is UTF-8, else BLOB.
** 3. The first column narrows what is read, and SQLite looks at it once more.
*/
typedef struct ObjectKind ObjectKind;
struct ObjectKind {
  const char *zName;
  const char *zSchema;
  int kind;
  const char *zColumns;      /* A letter for each column, see objectColumn() */
  int iOrdered;              /* The column in whose order elements come */
};
static const ObjectKind aObjectKind[] = {
  { "silica_hash", "CREATE TABLE x(field TEXT, value, ttl INTEGER, key HIDDEN, database HIDDEN)",
    SILICA_KIND_HASH, "nvtkd", 0 },
  { "silica_list", "CREATE TABLE x(position INTEGER, value, key HIDDEN, database HIDDEN)",
    SILICA_KIND_LIST, "pvkd", 0 },
  { "silica_set", "CREATE TABLE x(member TEXT, key HIDDEN, database HIDDEN)",
    SILICA_KIND_SET, "nkd", 0 },
  { "silica_zset", "CREATE TABLE x(member TEXT, score REAL, key HIDDEN, database HIDDEN)",
    SILICA_KIND_ZSET, "nskd", 1 },
  { "silica_stream",
    "CREATE TABLE x(id TEXT, field TEXT, value, key HIDDEN, database HIDDEN)",
    SILICA_KIND_STREAM, "invkd", -1 },
};

typedef struct ObjectTable ObjectTable;
struct ObjectTable {
  KeyspaceTable table;       /* Its zName is NULL */
  const ObjectKind *pKind;
};

typedef struct ObjectCursor ObjectCursor;
struct ObjectCursor {
  sqlite3_vtab_cursor base;
  SilicaElements *pElements;
  sqlite3_value *pKey, *pDatabase;
  SilicaElement element;
  sqlite3_int64 iRow;
  int isEnd;
};

static int objectConnect(
  sqlite3 *db, void *pAux, int argc, const char *const*argv, sqlite3_vtab **ppVtab, char **pzErr
){
  const ObjectKind *pKind = (const ObjectKind*)pAux;
  ObjectTable *p;
  int rc = sqlite3_declare_vtab(db, pKind->zSchema);
  *ppVtab = 0;
  if( rc!=SQLITE_OK ) return rc;
  p = sqlite3MallocZero(sizeof(*p));
  if( p==0 ) return SQLITE_NOMEM_BKPT;
  p->table.db = db;
  p->table.zSchema = sqlite3_mprintf("%s", argv[1]);
  p->pKind = pKind;
  if( p->table.zSchema==0 ){
    sqlite3_free(p);
    return SQLITE_NOMEM_BKPT;
  }
  *ppVtab = &p->table.base;
  return SQLITE_OK;
}

/* idxStr has a letter for each argument of xFilter: 'k' for the key, 'd' for the database, 'e' for
** the first column. */
static int objectBestIndex(sqlite3_vtab *pVtab, sqlite3_index_info *pInfo){
  ObjectTable *p = (ObjectTable*)pVtab;
  const char *zColumns = p->pKind->zColumns;
  int iKey = (int)(strchr(zColumns, 'k') - zColumns);
  int hasElement = p->pKind->kind!=SILICA_KIND_STREAM;
  char zArg[4];
  int i, nArg = 0, isKey = 0, isDatabase = 0, isElement = 0;
  for(i=0; i<pInfo->nConstraint; i++){
    const struct sqlite3_index_constraint *pTerm = &pInfo->aConstraint[i];
    int isHidden = pTerm->iColumn>=iKey;
    int *pIs = pTerm->iColumn==iKey ? &isKey : isHidden ? &isDatabase : &isElement;
    if( pTerm->op!=SQLITE_INDEX_CONSTRAINT_EQ || *pIs ) continue;
    if( !isHidden ){
      if( pTerm->iColumn!=0 || !hasElement || !pTerm->usable ) continue;
      if( sqlite3_stricmp(sqlite3_vtab_collation(pInfo, i), "BINARY")!=0 ) continue;
    }
    if( !pTerm->usable ) return SQLITE_CONSTRAINT;
    *pIs = 1;
    zArg[nArg++] = !isHidden ? 'e' : pIs==&isKey ? 'k' : 'd';
    pInfo->aConstraintUsage[i].argvIndex = nArg;
    pInfo->aConstraintUsage[i].omit = isHidden;
  }
  if( !isKey ){
    sqlite3_free(pVtab->zErrMsg);
    pVtab->zErrMsg = sqlite3_mprintf("%s('key') wants the key of an object", p->pKind->zName);
    return SQLITE_ERROR;
  }
  zArg[nArg] = 0;
  pInfo->idxStr = sqlite3_mprintf("%s", zArg);
  if( pInfo->idxStr==0 ) return SQLITE_NOMEM_BKPT;
  pInfo->needToFreeIdxStr = 1;
  pInfo->estimatedRows = isElement ? 1 : 10000;
  pInfo->estimatedCost = isElement ? 10 : 10000;
  if( isElement ) pInfo->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
  if( pInfo->nOrderBy==1 && pInfo->aOrderBy[0].iColumn==p->pKind->iOrdered
   && !pInfo->aOrderBy[0].desc ){
    pInfo->orderByConsumed = 1;
  }
  return SQLITE_OK;
}

static int objectOpen(sqlite3_vtab *pVtab, sqlite3_vtab_cursor **ppCursor){
  ObjectTable *p = (ObjectTable*)pVtab;
  SilicaDb *pDb = keyspaceDb(&p->table);
  ObjectCursor *pCur;
  int rc;
  if( pDb==0 ) return SQLITE_ERROR;
  pCur = sqlite3MallocZero(sizeof(*pCur));
  if( pCur==0 ) return SQLITE_NOMEM_BKPT;
  rc = silica_sql_elements_open(pDb, p->pKind->kind, &pCur->pElements);
  if( rc!=SQLITE_OK ){
    sqlite3_free(pCur);
    return keyspaceError(&p->table, pDb, rc);
  }
  pCur->isEnd = 1;
  *ppCursor = &pCur->base;
  return SQLITE_OK;
}

static void objectForget(ObjectCursor *pCur){
  sqlite3_value_free(pCur->pKey);
  sqlite3_value_free(pCur->pDatabase);
  pCur->pKey = pCur->pDatabase = 0;
}

static int objectClose(sqlite3_vtab_cursor *pCursor){
  ObjectCursor *pCur = (ObjectCursor*)pCursor;
  silica_sql_elements_close(pCur->pElements);
  objectForget(pCur);
  sqlite3_free(pCur);
  return SQLITE_OK;
}

static int objectArrive(ObjectCursor *pCur, int rc){
  KeyspaceTable *p = (KeyspaceTable*)pCur->base.pVtab;
  pCur->isEnd = 1;
  if( rc==SQLITE_OK ) rc = silica_sql_elements_here(pCur->pElements, &pCur->element);
  if( rc==SQLITE_DONE ) return SQLITE_OK;
  if( rc==SQLITE_OK ) pCur->isEnd = 0;
  else if( keyspaceDb(p) ) keyspaceError(p, keyspaceDb(p), rc);
  return rc;
}

static int objectFilter(
  sqlite3_vtab_cursor *pCursor, int idxNum, const char *idxStr, int argc, sqlite3_value **argv
){
  ObjectCursor *pCur = (ObjectCursor*)pCursor;
  SilicaSought sought;
  int i;
  memset(&sought, 0, sizeof(sought));
  sought.position = -1;
  pCur->isEnd = 1;
  pCur->iRow = 0;
  objectForget(pCur);
  for(i=0; i<argc; i++){
    int type = sqlite3_value_type(argv[i]);
    sqlite3_value **ppKept = idxStr[i]=='k' ? &pCur->pKey : &pCur->pDatabase;
    if( type==SQLITE_NULL ) return SQLITE_OK;
    if( idxStr[i]=='e' ){
      sought.position = sqlite3_value_int64(argv[i]);
      /* A BLOB is no TEXT, whatever its bytes. */
      if( type==SQLITE_BLOB ) return SQLITE_OK;
      sought.only = keyspaceBytes(argv[i], &sought.only_size);
      continue;
    }
    *ppKept = sqlite3_value_dup(argv[i]);
    if( *ppKept==0 ) return SQLITE_NOMEM_BKPT;
    if( idxStr[i]=='k' ) sought.key = keyspaceBytes(*ppKept, &sought.key_size);
    else if( type==SQLITE_INTEGER ) sought.number = sqlite3_value_int64(*ppKept);
    else sought.name = (const char*)sqlite3_value_text(*ppKept);
  }
  return objectArrive(pCur, silica_sql_elements_search(pCur->pElements, &sought));
}

static int objectNext(sqlite3_vtab_cursor *pCursor){
  ObjectCursor *pCur = (ObjectCursor*)pCursor;
  pCur->iRow++;
  return objectArrive(pCur, silica_sql_elements_step(pCur->pElements));
}

static int objectEof(sqlite3_vtab_cursor *pCursor){
  return ((ObjectCursor*)pCursor)->isEnd;
}

static void objectText(sqlite3_context *pCtx, const u8 *z, u32 n){
  sqlite3_result_text64(pCtx, (const char*)z, n, SQLITE_TRANSIENT, SQLITE_UTF8);
}

static int objectColumn(sqlite3_vtab_cursor *pCursor, sqlite3_context *pCtx, int iColumn){
  ObjectCursor *pCur = (ObjectCursor*)pCursor;
  ObjectTable *p = (ObjectTable*)pCursor->pVtab;
  SilicaElement *pHere = &pCur->element;
  switch( p->pKind->zColumns[iColumn] ){
    case 'n': objectText(pCtx, pHere->name, pHere->name_size); break;
    case 'i': objectText(pCtx, pHere->id, pHere->id_size); break;
    case 'p': sqlite3_result_int64(pCtx, pHere->position); break;
    case 's': sqlite3_result_double(pCtx, pHere->score); break;
    case 't': if( pHere->ttl_ms>=0 ) sqlite3_result_int64(pCtx, pHere->ttl_ms); break;
    case 'k': sqlite3_result_value(pCtx, pCur->pKey); break;
    case 'd': if( pCur->pDatabase ) sqlite3_result_value(pCtx, pCur->pDatabase); break;
    default:
      if( keyspaceIsText(pHere->value, pHere->value_size) ){
        objectText(pCtx, pHere->value, pHere->value_size);
      }else{
        sqlite3_result_blob64(pCtx, pHere->value, pHere->value_size, SQLITE_TRANSIENT);
      }
  }
  return SQLITE_OK;
}

static int objectRowid(sqlite3_vtab_cursor *pCursor, sqlite3_int64 *pRowid){
  *pRowid = ((ObjectCursor*)pCursor)->iRow;
  return SQLITE_OK;
}

/* Without xCreate, it is a function only. */
static sqlite3_module objectModule = {
  /* iVersion      */ 0,
  /* xCreate       */ 0,
  /* xConnect      */ objectConnect,
  /* xBestIndex    */ objectBestIndex,
  /* xDisconnect   */ keyspaceDisconnect,
  /* xDestroy      */ keyspaceDisconnect,
  /* xOpen         */ objectOpen,
  /* xClose        */ objectClose,
  /* xFilter       */ objectFilter,
  /* xNext         */ objectNext,
  /* xEof          */ objectEof,
  /* xColumn       */ objectColumn,
  /* xRowid        */ objectRowid
};

/* SQLite calls it for each new connection. */
int SQLITE_EXTRA_AUTOEXT(sqlite3 *db){
  int i, rc = sqlite3_create_module_v2(db, "silica_keyspace", &keyspaceModule, 0, 0);
  for(i=0; rc==SQLITE_OK && i<ArraySize(aObjectKind); i++){
    void *pKind = (void*)&aObjectKind[i];
    rc = sqlite3_create_module_v2(db, aObjectKind[i].zName, &objectModule, pKind, 0);
  }
  return rc;
}
