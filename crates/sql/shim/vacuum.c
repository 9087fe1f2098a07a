/*
** Our function before that of SQLite's vacuum.c. VACUUM of a Silica database is a compaction of
** its store. VACUUM INTO writes one of SQLite's own files, of whatever kind the database is.
*/
SQLITE_PRIVATE SQLITE_NOINLINE int sqlite3RunVacuum(
  char **pzErrMsg, sqlite3 *db, int iDb, sqlite3_value *pOut
){
  Btree *pMain = db->aDb[iDb].pBt;
  int rc;
  if( pOut==0 && pMain && isSilica(pMain) ){
    if( !db->autoCommit ){
      sqlite3SetString(pzErrMsg, db, "cannot VACUUM from within a transaction");
      return SQLITE_ERROR;
    }
    if( db->nVdbeActive>1 ){
      sqlite3SetString(pzErrMsg, db, "cannot VACUUM - SQL statements in progress");
      return SQLITE_ERROR;
    }
    rc = silicaConnect(pMain);
    if( rc==SQLITE_OK ) rc = silica_sql_compact(silicaDb(pMain));
    return silicaError(pMain, rc);
  }
  silicaOpensStock++;
  rc = stock_sqlite3RunVacuum(pzErrMsg, db, iDb, pOut);
  silicaOpensStock--;
  return rc;
}

