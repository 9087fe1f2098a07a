/*
** silica_keyspace: a keyspace of the store as a table. src/tables.rs has what it reads and writes.
**
**   SELECT key, value FROM silica_keyspace('users') WHERE key GLOB 'user:*';
**   CREATE VIRTUAL TABLE users USING silica_keyspace('users');
**
** 1. The first form reads; a table that was created is written, too.
** 2. A key is TEXT, whatever its bytes, so that SQL's order of keys is that of the engine. A value
**    is TEXT if it is UTF-8, else BLOB.
** 3. Conditions on the key narrow what is read, and SQLite looks at each of them once more.
*/
#define KEYSPACE_KEY 0
#define KEYSPACE_VALUE 1
#define KEYSPACE_TTL 2
#define KEYSPACE_BITS 3
#define KEYSPACE_NAME 4
#define KEYSPACE_CONSTRAINTS 16

typedef struct KeyspaceTable KeyspaceTable;
struct KeyspaceTable {
  sqlite3_vtab base;
  sqlite3 *db;
  char *zSchema;             /* The database that the table is in */
  char *zName;               /* The keyspace; NULL of the function */
};

typedef struct KeyspaceCursor KeyspaceCursor;
struct KeyspaceCursor {
  sqlite3_vtab_cursor base;
  SilicaRows *pRows;
  char *zName;               /* The keyspace that the function was asked for */
  SilicaPair entry;
  int isEnd;
};

/* The database whose store has the keyspaces; NULL, and words, if it is none of ours. */
static SilicaDb *keyspaceDb(KeyspaceTable *p){
  int iDb = sqlite3FindDbName(p->db, p->zSchema);
  Btree *pBt = iDb>=0 ? p->db->aDb[iDb].pBt : 0;
  if( pBt && !isSilica(pBt) ) pBt = p->db->aDb[0].pBt;
  if( pBt && isSilica(pBt) && silicaConnect(pBt)==SQLITE_OK ) return silicaDb(pBt);
  sqlite3_free(p->base.zErrMsg);
  p->base.zErrMsg = sqlite3_mprintf(
      "the table needs a Silica database: this one is SQLite's own, or cannot be opened");
  return 0;
}

/* The words of an error. A table that somebody has written is no error, but a reason to begin
** anew. */
static int keyspaceError(KeyspaceTable *p, SilicaDb *pDb, int rc){
  if( rc!=SQLITE_OK && rc!=SQLITE_DONE ){
    sqlite3_free(p->base.zErrMsg);
    p->base.zErrMsg = sqlite3_mprintf("%s", silica_sql_message(pDb));
  }
  return rc;
}

static int keyspaceDo(KeyspaceTable *p, int what, int iNumber){
  SilicaDb *pDb = keyspaceDb(p);
  if( pDb==0 ) return SQLITE_ERROR;
  return keyspaceError(p, pDb, silica_sql_keyspace_do(pDb, p->zName, what, iNumber));
}

static int keyspaceConnect(
  sqlite3 *db, void *pAux, int argc, const char *const*argv, sqlite3_vtab **ppVtab, char **pzErr
){
  int isFunction = argc<=3 && sqlite3_stricmp(argv[0], argv[2])==0;
  KeyspaceTable *p;
  int rc;
  *ppVtab = 0;
  if( !isFunction && argc!=4 ){
    *pzErr = sqlite3_mprintf("one keyspace is wanted: CREATE VIRTUAL TABLE %s USING "
                             "silica_keyspace('users')", argv[2]);
    return SQLITE_ERROR;
  }
  rc = sqlite3_declare_vtab(db,
      "CREATE TABLE x(key TEXT PRIMARY KEY NOT NULL, value, ttl INTEGER, bits INTEGER,"
      " keyspace TEXT HIDDEN) WITHOUT ROWID");
  if( rc!=SQLITE_OK ) return rc;
  p = sqlite3MallocZero(sizeof(*p));
  if( p==0 ) return SQLITE_NOMEM_BKPT;
  p->db = db;
  p->zSchema = sqlite3_mprintf("%s", argv[1]);
  if( !isFunction && (p->zName = sqlite3_mprintf("%s", argv[3]))!=0 ) sqlite3Dequote(p->zName);
  if( p->zSchema==0 || (p->zName==0 && !isFunction) ){
    sqlite3_free(p->zSchema);
    sqlite3_free(p);
    return SQLITE_NOMEM_BKPT;
  }
  sqlite3_vtab_config(db, SQLITE_VTAB_CONSTRAINT_SUPPORT, 1);
  *ppVtab = &p->base;
  return SQLITE_OK;
}

static int keyspaceDisconnect(sqlite3_vtab *pVtab){
  KeyspaceTable *p = (KeyspaceTable*)pVtab;
  sqlite3_free(p->zSchema);
  sqlite3_free(p->zName);
  sqlite3_free(p);
  return SQLITE_OK;
}

/* What a condition is to silica_sql_rows_search(); 0 if it has no use for it. */
static char keyspaceKind(int op){
  switch( op ){
    case SQLITE_INDEX_CONSTRAINT_EQ: return '=';
    case SQLITE_INDEX_CONSTRAINT_GT: return '>';
    case SQLITE_INDEX_CONSTRAINT_GE: return 'G';
    case SQLITE_INDEX_CONSTRAINT_LT: return '<';
    case SQLITE_INDEX_CONSTRAINT_LE: return 'L';
    case SQLITE_INDEX_CONSTRAINT_LIKE: return 'l';
    case SQLITE_INDEX_CONSTRAINT_GLOB: return 'g';
    default: return 0;
  }
}

/* idxStr has a letter for each argument of xFilter, 'k' for the keyspace; idxNum is the
** order that the statement counts on. */
static int keyspaceBestIndex(sqlite3_vtab *pVtab, sqlite3_index_info *pInfo){
  KeyspaceTable *p = (KeyspaceTable*)pVtab;
  char zKinds[KEYSPACE_CONSTRAINTS+2];
  int i, nArg = 0, isKey = 0, isLow = 0, isHigh = 0, isPattern = 0, hasName = p->zName!=0;
  for(i=0; i<pInfo->nConstraint && nArg<KEYSPACE_CONSTRAINTS; i++){
    const struct sqlite3_index_constraint *pTerm = &pInfo->aConstraint[i];
    char kind = keyspaceKind(pTerm->op);
    if( pTerm->iColumn==KEYSPACE_NAME ){
      if( kind!='=' || p->zName ) continue;
      if( !pTerm->usable ) return SQLITE_CONSTRAINT;
      pInfo->aConstraintUsage[i].omit = 1;
      hasName = 1;
      kind = 'k';
    }else{
      if( pTerm->iColumn!=KEYSPACE_KEY || kind==0 || !pTerm->usable ) continue;
      if( sqlite3_stricmp(sqlite3_vtab_collation(pInfo, i), "BINARY")!=0
       && kind!='l' && kind!='g' ) continue;
      isKey |= kind=='=';
      isLow |= kind=='>' || kind=='G';
      isHigh |= kind=='<' || kind=='L';
      isPattern |= kind=='l' || kind=='g';
    }
    zKinds[nArg++] = kind;
    pInfo->aConstraintUsage[i].argvIndex = nArg;
  }
  if( !hasName ){
    sqlite3_free(p->base.zErrMsg);
    p->base.zErrMsg = sqlite3_mprintf("silica_keyspace('users') wants the name of a keyspace");
    return SQLITE_ERROR;
  }
  zKinds[nArg] = 0;
  pInfo->idxStr = sqlite3_mprintf("%s", zKinds);
  if( pInfo->idxStr==0 ) return SQLITE_NOMEM_BKPT;
  pInfo->needToFreeIdxStr = 1;
  if( isKey ){
    pInfo->estimatedCost = 10;
    pInfo->estimatedRows = 1;
    pInfo->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
  }else{
    pInfo->estimatedRows = 1000000;
    if( isPattern || isLow ) pInfo->estimatedRows /= 10;
    if( isPattern || isHigh ) pInfo->estimatedRows /= 10;
    pInfo->estimatedCost = (double)pInfo->estimatedRows;
  }
  if( p->zName && pInfo->nOrderBy==1 && pInfo->aOrderBy[0].iColumn==KEYSPACE_KEY ){
    SilicaDb *pDb = keyspaceDb(p);
    if( pDb && silica_sql_keyspace_is_ordered(pDb, p->zName) ){
      pInfo->idxNum = pInfo->aOrderBy[0].desc ? SILICA_KEYS_DESCENDING : SILICA_KEYS_ASCENDING;
      pInfo->orderByConsumed = 1;
    }
  }
  return SQLITE_OK;
}

static int keyspaceOpen(sqlite3_vtab *pVtab, sqlite3_vtab_cursor **ppCursor){
  KeyspaceTable *p = (KeyspaceTable*)pVtab;
  SilicaDb *pDb = keyspaceDb(p);
  KeyspaceCursor *pCur;
  int rc;
  if( pDb==0 ) return SQLITE_ERROR;
  pCur = sqlite3MallocZero(sizeof(*pCur));
  if( pCur==0 ) return SQLITE_NOMEM_BKPT;
  rc = keyspaceError(p, pDb, silica_sql_rows_open(pDb, &pCur->pRows));
  if( rc!=SQLITE_OK ){
    sqlite3_free(pCur);
    return rc;
  }
  pCur->isEnd = 1;
  *ppCursor = &pCur->base;
  return SQLITE_OK;
}

static int keyspaceClose(sqlite3_vtab_cursor *pCursor){
  KeyspaceCursor *pCur = (KeyspaceCursor*)pCursor;
  silica_sql_rows_close(pCur->pRows);
  sqlite3_free(pCur->zName);
  sqlite3_free(pCur);
  return SQLITE_OK;
}

static int keyspaceArrive(KeyspaceCursor *pCur, int rc){
  KeyspaceTable *p = (KeyspaceTable*)pCur->base.pVtab;
  pCur->isEnd = 1;
  if( rc==SQLITE_OK ) rc = silica_sql_rows_here(pCur->pRows, &pCur->entry);
  if( rc==SQLITE_DONE ) return SQLITE_OK;
  if( rc==SQLITE_OK ) pCur->isEnd = 0;
  else if( keyspaceDb(p) ) keyspaceError(p, keyspaceDb(p), rc);
  return rc;
}

/* A condition as the store compares it: keys are TEXT, and a BLOB is behind every TEXT. Returns 0
** if no key satisfies it, and makes the kind 0 if every key does. */
static int keyspaceConstraint(SilicaConstraint *pOut, char kind, sqlite3_value *pValue){
  int type = sqlite3_value_type(pValue);
  if( type==SQLITE_NULL ) return 0;
  pOut->kind = kind;
  if( type==SQLITE_BLOB ){
    if( kind=='=' || kind=='>' || kind=='G' ) return 0;
    pOut->kind = 0;
    return 1;
  }
  pOut->bytes = sqlite3_value_text(pValue);
  pOut->size = (u32)sqlite3_value_bytes(pValue);
  return 1;
}

static int keyspaceFilter(
  sqlite3_vtab_cursor *pCursor, int idxNum, const char *idxStr, int argc, sqlite3_value **argv
){
  KeyspaceCursor *pCur = (KeyspaceCursor*)pCursor;
  KeyspaceTable *p = (KeyspaceTable*)pCursor->pVtab;
  SilicaConstraint aConstraint[KEYSPACE_CONSTRAINTS+1];
  const char *zName = p->zName;
  int i, nConstraint = 0, rc;
  pCur->isEnd = 1;
  for(i=0; i<argc; i++){
    if( idxStr[i]=='k' ){
      const char *zGiven = (const char*)sqlite3_value_text(argv[i]);
      if( zGiven==0 ) return SQLITE_OK;
      sqlite3_free(pCur->zName);
      zName = pCur->zName = sqlite3_mprintf("%s", zGiven);
      if( zName==0 ) return SQLITE_NOMEM_BKPT;
    }else{
      if( !keyspaceConstraint(&aConstraint[nConstraint], idxStr[i], argv[i]) ) return SQLITE_OK;
      if( aConstraint[nConstraint].kind ) nConstraint++;
    }
  }
  rc = silica_sql_rows_search(pCur->pRows, zName, p->zName!=0, aConstraint, nConstraint, idxNum);
  return keyspaceArrive(pCur, rc);
}

static int keyspaceNext(sqlite3_vtab_cursor *pCursor){
  KeyspaceCursor *pCur = (KeyspaceCursor*)pCursor;
  return keyspaceArrive(pCur, silica_sql_rows_step(pCur->pRows));
}

static int keyspaceEof(sqlite3_vtab_cursor *pCursor){
  return ((KeyspaceCursor*)pCursor)->isEnd;
}

/* True for bytes that are UTF-8 without zero bytes. */
static int keyspaceIsText(const u8 *z, u32 n){
  const u8 *zEnd = z+n;
  while( z<zEnd ){
    u32 c = *z++;
    int nMore = c<0x80 ? 0 : c>=0xc2 && c<0xe0 ? 1 : (c&0xf0)==0xe0 ? 2 : c>=0xf0 && c<0xf5 ? 3 : -1;
    u32 first = z<zEnd ? *z : 0;
    if( nMore<0 || c==0 || zEnd-z<nMore ) return 0;
    if( (c==0xe0 && first<0xa0) || (c==0xed && first>0x9f) ) return 0;
    if( (c==0xf0 && first<0x90) || (c==0xf4 && first>0x8f) ) return 0;
    while( nMore-->0 ) if( (*z++ & 0xc0)!=0x80 ) return 0;
  }
  return 1;
}

static int keyspaceColumn(sqlite3_vtab_cursor *pCursor, sqlite3_context *pCtx, int iColumn){
  KeyspaceCursor *pCur = (KeyspaceCursor*)pCursor;
  KeyspaceTable *p = (KeyspaceTable*)pCursor->pVtab;
  SilicaPair *pEntry = &pCur->entry;
  switch( iColumn ){
    case KEYSPACE_KEY:
      sqlite3_result_text64(pCtx, (const char*)pEntry->key, pEntry->key_size, SQLITE_TRANSIENT,
                            SQLITE_UTF8);
      break;
    case KEYSPACE_VALUE:
      if( keyspaceIsText(pEntry->value, pEntry->value_size) ){
        sqlite3_result_text64(pCtx, (const char*)pEntry->value, pEntry->value_size,
                              SQLITE_TRANSIENT, SQLITE_UTF8);
      }else{
        sqlite3_result_blob64(pCtx, pEntry->value, pEntry->value_size, SQLITE_TRANSIENT);
      }
      break;
    case KEYSPACE_TTL:
      /* What an UPDATE leaves as it is expires when it did before, and not a little later. */
      if( !sqlite3_vtab_nochange(pCtx) && pEntry->ttl_ms>=0 ){
        sqlite3_result_int64(pCtx, pEntry->ttl_ms);
      }
      break;
    case KEYSPACE_BITS:
      sqlite3_result_int64(pCtx, pEntry->bits);
      break;
    default:
      sqlite3_result_text(pCtx, p->zName ? p->zName : pCur->zName, -1, SQLITE_TRANSIENT);
  }
  return SQLITE_OK;
}

static int keyspaceRowid(sqlite3_vtab_cursor *pCursor, sqlite3_int64 *pRowid){
  *pRowid = 0;
  return SQLITE_OK;
}

/* The bytes of a value: numbers are written as text. */
static const u8 *keyspaceBytes(sqlite3_value *pValue, u32 *pSize){
  int isBlob = sqlite3_value_type(pValue)==SQLITE_BLOB;
  const u8 *z = isBlob ? sqlite3_value_blob(pValue) : sqlite3_value_text(pValue);
  *pSize = (u32)sqlite3_value_bytes(pValue);
  return z ? z : (const u8*)"";
}

static int keyspaceRefuse(KeyspaceTable *p, int rc, const char *zWords){
  sqlite3_free(p->base.zErrMsg);
  p->base.zErrMsg = sqlite3_mprintf("%s", zWords);
  return rc;
}

static int keyspaceUpdate(
  sqlite3_vtab *pVtab, int argc, sqlite3_value **argv, sqlite3_int64 *pRowid
){
  KeyspaceTable *p = (KeyspaceTable*)pVtab;
  const u8 *zOld = 0;
  u32 nOld = 0;
  SilicaRow row;
  SilicaDb *pDb;
  int ifThere = SILICA_FAILS;
  if( p->zName==0 ){
    return keyspaceRefuse(p, SQLITE_READONLY, "silica_keyspace() reads; to write, make it a table: "
        "CREATE VIRTUAL TABLE users USING silica_keyspace('users')");
  }
  pDb = keyspaceDb(p);
  if( pDb==0 ) return SQLITE_ERROR;
  if( sqlite3_value_type(argv[0])!=SQLITE_NULL ) zOld = keyspaceBytes(argv[0], &nOld);
  if( argc>1 ){
    sqlite3_value **aNew = &argv[2];
    memset(&row, 0, sizeof(row));
    if( sqlite3_value_type(aNew[KEYSPACE_KEY])==SQLITE_NULL ){
      return keyspaceRefuse(p, SQLITE_CONSTRAINT_NOTNULL, "NOT NULL constraint failed: key");
    }
    if( sqlite3_value_type(aNew[KEYSPACE_VALUE])==SQLITE_NULL ){
      return keyspaceRefuse(p, SQLITE_CONSTRAINT_NOTNULL, "NOT NULL constraint failed: value");
    }
    row.key = keyspaceBytes(aNew[KEYSPACE_KEY], &row.key_size);
    row.value = keyspaceBytes(aNew[KEYSPACE_VALUE], &row.value_size);
    row.ttl_ms = sqlite3_value_int64(aNew[KEYSPACE_TTL]);
    row.bits = sqlite3_value_int64(aNew[KEYSPACE_BITS]);
    if( zOld && sqlite3_value_nochange(aNew[KEYSPACE_TTL]) ) row.ttl = SILICA_TTL_KEPT;
    else if( sqlite3_value_type(aNew[KEYSPACE_TTL])==SQLITE_NULL ) row.ttl = SILICA_TTL_NONE;
    switch( sqlite3_vtab_on_conflict(p->db) ){
      case SQLITE_REPLACE: ifThere = SILICA_IS_REPLACED; break;
      case SQLITE_IGNORE: ifThere = SILICA_STAYS; break;
    }
  }
  return keyspaceError(p, pDb,
      silica_sql_keyspace_write(pDb, p->zName, zOld, nOld, argc>1 ? &row : 0, ifThere));
}

static int keyspaceBegin(sqlite3_vtab *pVtab){
  KeyspaceTable *p = (KeyspaceTable*)pVtab;
  return p->zName ? keyspaceDo(p, SILICA_KEYSPACE_BEGIN, 0) : SQLITE_OK;
}

static int keyspaceSync(sqlite3_vtab *pVtab){
  KeyspaceTable *p = (KeyspaceTable*)pVtab;
  Btree *pMain = p->db->aDb[0].pBt;
  int isSynced = pMain && isSilica(pMain) && silicaHandle(pMain)->level>=PAGER_SYNCHRONOUS_FULL;
  if( p->zName==0 ) return SQLITE_OK;
  return keyspaceDo(p, isSynced ? SILICA_KEYSPACE_COMMIT_SYNCED : SILICA_KEYSPACE_COMMIT, 0);
}

static int keyspaceEnd(sqlite3_vtab *pVtab){
  KeyspaceTable *p = (KeyspaceTable*)pVtab;
  return p->zName ? keyspaceDo(p, SILICA_KEYSPACE_END, 0) : SQLITE_OK;
}

static int keyspaceSavepoint(sqlite3_vtab *pVtab, int iNumber){
  KeyspaceTable *p = (KeyspaceTable*)pVtab;
  return p->zName ? keyspaceDo(p, SILICA_KEYSPACE_SAVEPOINT, iNumber) : SQLITE_OK;
}

static int keyspaceRelease(sqlite3_vtab *pVtab, int iNumber){
  KeyspaceTable *p = (KeyspaceTable*)pVtab;
  return p->zName ? keyspaceDo(p, SILICA_KEYSPACE_RELEASE, iNumber) : SQLITE_OK;
}

static int keyspaceRollbackTo(sqlite3_vtab *pVtab, int iNumber){
  KeyspaceTable *p = (KeyspaceTable*)pVtab;
  return p->zName ? keyspaceDo(p, SILICA_KEYSPACE_ROLL_BACK_TO, iNumber) : SQLITE_OK;
}

static sqlite3_module keyspaceModule = {
  /* iVersion      */ 2,
  /* xCreate       */ keyspaceConnect,
  /* xConnect      */ keyspaceConnect,
  /* xBestIndex    */ keyspaceBestIndex,
  /* xDisconnect   */ keyspaceDisconnect,
  /* xDestroy      */ keyspaceDisconnect,
  /* xOpen         */ keyspaceOpen,
  /* xClose        */ keyspaceClose,
  /* xFilter       */ keyspaceFilter,
  /* xNext         */ keyspaceNext,
  /* xEof          */ keyspaceEof,
  /* xColumn       */ keyspaceColumn,
  /* xRowid        */ keyspaceRowid,
  /* xUpdate       */ keyspaceUpdate,
  /* xBegin        */ keyspaceBegin,
  /* xSync         */ keyspaceSync,
  /* xCommit       */ keyspaceEnd,
  /* xRollback     */ keyspaceEnd,
  /* xFindFunction */ 0,
  /* xRename       */ 0,
  /* xSavepoint    */ keyspaceSavepoint,
  /* xRelease      */ keyspaceRelease,
  /* xRollbackTo   */ keyspaceRollbackTo
};
