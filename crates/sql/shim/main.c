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
SQLITE_API int sqlite3_file_control(sqlite3 *db, const char *zDbName, int op, void *pArg){
  if( op==SQLITE_FCNTL_PRAGMA && db ){
    char **azPragma = (char**)pArg;
    Btree *p;
    int rc, isOn = 0;
    if( azPragma[1]==0 || sqlite3StrICmp(azPragma[1], "silica_concurrent")!=0 ){
      return stock_sqlite3_file_control(db, zDbName, op, pArg);
    }
    sqlite3_mutex_enter(db->mutex);
    p = sqlite3DbNameToBtree(db, zDbName);
    rc = p && isSilica(p) ? silicaConnect(p) : SQLITE_NOTFOUND;
    if( rc==SQLITE_OK ){
      int on = azPragma[2] ? sqlite3GetBoolean(azPragma[2], 0) : -1;
      rc = silicaError(p, silica_sql_concurrent(silicaDb(p), on, &isOn));
      silicaIsNotKept = 1;
      azPragma[0] = sqlite3_mprintf("%s", rc==SQLITE_OK ? (isOn ? "1" : "0") : silicaWords);
    }
    sqlite3_mutex_leave(db->mutex);
    return rc;
  }
  return stock_sqlite3_file_control(db, zDbName, op, pArg);
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
