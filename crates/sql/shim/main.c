/*
** Our function before that of SQLite's main.c: the text of an error of a Silica database has the
** store's own words.
*/
SQLITE_PRIVATE const char *sqlite3ErrStr(int rc){
  if( silicaWordsCode!=0 && silicaWordsCode==rc ) return silicaWords;
  return stock_sqlite3ErrStr(rc);
}

/* The pages of a database in SQLite's format: a Silica database is copied into memory for them. */
SQLITE_API unsigned char *sqlite3_serialize(
  sqlite3 *db, const char *zSchema, sqlite3_int64 *piSize, unsigned int mFlags
){
  sqlite3 *pMemory = 0;
  sqlite3_backup *pBackup;
  unsigned char *pPages = 0;
  const char *zDb = zSchema ? zSchema : db->aDb[0].zDbSName;
  int iDb = sqlite3FindDbName(db, zDb);
  if( iDb<0 || db->aDb[iDb].pBt==0 || !isSilica(db->aDb[iDb].pBt) ){
    return stock_sqlite3_serialize(db, zSchema, piSize, mFlags);
  }
  if( piSize ) *piSize = -1;
  if( mFlags & SQLITE_SERIALIZE_NOCOPY ) return 0;
  if( sqlite3_open(":memory:", &pMemory)==SQLITE_OK ){
    pBackup = sqlite3_backup_init(pMemory, "main", db, zDb);
    if( pBackup ){
      sqlite3_backup_step(pBackup, -1);
      if( sqlite3_backup_finish(pBackup)==SQLITE_OK ){
        pPages = stock_sqlite3_serialize(pMemory, "main", piSize, 0);
      }
    }
  }
  sqlite3_close(pMemory);
  return pPages;
}

/* PRAGMA silica_concurrent: transactions of the connection write beside others. */
static int silicaConcurrent(Btree *p, char **azPragma){
  int rc, isOn = 0, on = azPragma[2] ? sqlite3GetBoolean(azPragma[2], 0) : -1;
  rc = silicaConnect(p);
  if( rc==SQLITE_OK ) rc = silicaError(p, silica_sql_concurrent(silicaDb(p), on, &isOn));
  silicaIsNotKept = 1;
  azPragma[0] = sqlite3_mprintf("%s", rc==SQLITE_OK ? (isOn ? "1" : "0") : silicaWords);
  return rc;
}

/* What a Silica database answers itself; *pIsDone is 0 for what SQLite does. */
static int silicaFileControl(Btree *p, int op, void *pArg, int *pIsDone){
  int rc = SQLITE_OK;
  *pIsDone = 1;
  if( op==SQLITE_FCNTL_PRAGMA ){
    char **azPragma = (char**)pArg;
    if( azPragma[1] && sqlite3StrICmp(azPragma[1], "silica_concurrent")==0 ){
      return silicaConcurrent(p, azPragma);
    }
  }else if( op==SQLITE_FCNTL_DATA_VERSION ){
    rc = silicaConnect(p);
    if( rc==SQLITE_OK ) rc = silica_sql_get_meta(silicaDb(p), SILICA_CONTENT_VERSION, (u32*)pArg);
    return silicaError(p, rc);
  }else if( op==SQLITE_FCNTL_MMAP_SIZE ){
    i64 was = silicaHandle(p)->mmapBytes, is = *(i64*)pArg;
    if( is>=0 ) silicaHandle(p)->mmapBytes = silicaMmapBytes(is);
    *(i64*)pArg = was;
    return SQLITE_OK;
  }
  *pIsDone = 0;
  return SQLITE_OK;
}

SQLITE_API int sqlite3_file_control(sqlite3 *db, const char *zDbName, int op, void *pArg){
  Btree *p;
  int rc = SQLITE_OK, isDone = 0;
  if( db && sqlite3SafetyCheckOk(db) ){
    sqlite3_mutex_enter(db->mutex);
    p = sqlite3DbNameToBtree(db, zDbName);
    if( p && isSilica(p) ) rc = silicaFileControl(p, op, pArg, &isDone);
    sqlite3_mutex_leave(db->mutex);
  }
  return isDone ? rc : stock_sqlite3_file_control(db, zDbName, op, pArg);
}

/* Statements that are kept end before their connection does. */
static void silicaBeforeClose(sqlite3 *db){
  if( db && sqlite3SafetyCheckSickOrOk(db) ){
    Btree *pMain;
    sqlite3_mutex_enter(db->mutex);
    pMain = db->aDb[0].pBt;
    if( pMain && isSilica(pMain) && silicaHandle(pMain)->pStatements ){
      silicaDropAll(silicaHandle(pMain)->pStatements);
    }
    sqlite3_mutex_leave(db->mutex);
  }
}

SQLITE_API int sqlite3_close(sqlite3 *db){
  silicaBeforeClose(db);
  return stock_sqlite3_close(db);
}

SQLITE_API int sqlite3_close_v2(sqlite3 *db){
  silicaBeforeClose(db);
  return stock_sqlite3_close_v2(db);
}

/* Memory that the writes of a connection's transaction take, for the Rust part (sql/hooks.rs). */
u64 SILICA_WRITTEN_BY(sqlite3 *db){
  Btree *pMain = db->aDb[0].pBt;
  return pMain && isSilica(pMain) && silicaDb(pMain) ? silica_sql_written_bytes(silicaDb(pMain)) : 0;
}
