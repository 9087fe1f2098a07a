/*
** Our function before that of SQLite's vacuum.c. VACUUM of a Silica database is a compaction of
** its store. VACUUM INTO writes one of SQLite's own files, of whatever kind the database is: of a
** Silica database by copying entries (backup.c), so that no function of the schema is called, which
** the connection may not have.
*/

/* VACUUM INTO where the checks of VACUUM have passed. As in SQLite the file is attached. */
static int silicaVacuumInto(char **pzErrMsg, sqlite3 *db, int iDb, const char *zOut){
  Btree *pMain = db->aDb[iDb].pBt, *pTemp;
  u32 openFlags = db->openFlags, dbFlags = db->mDbFlags;
  u64 flags = db->flags;
  u8 mTrace = db->mTrace;
  int nDb = db->nDb, nRes = sqlite3BtreeGetRequestedReserve(pMain), rc;
  i64 size = 0;
  sqlite3_file *pFile;
  db->openFlags = (openFlags & ~SQLITE_OPEN_READONLY) | SQLITE_OPEN_CREATE|SQLITE_OPEN_READWRITE;
  db->flags |= SQLITE_AttachCreate|SQLITE_AttachWrite;
  db->mTrace = 0;
  rc = execSqlF(db, pzErrMsg, "ATTACH %Q AS silica_vacuum", zOut);
  db->openFlags = openFlags;
  db->flags = flags;
  db->mTrace = mTrace;
  if( rc!=SQLITE_OK ) return rc;
  pTemp = db->aDb[nDb].pBt;
  pFile = sqlite3PagerFile(sqlite3BtreePager(pTemp));
  if( pFile->pMethods && (sqlite3OsFileSize(pFile, &size)!=SQLITE_OK || size>0) ){
    sqlite3SetString(pzErrMsg, db, "output file already exists");
    rc = SQLITE_ERROR;
  }
  if( rc==SQLITE_OK ){
    const char *zFilename = sqlite3BtreeGetFilename(pTemp);
    int nNew = (int)sqlite3_uri_int64(zFilename, "reserve", nRes);
    if( nNew>=0 && nNew<=255 ) nRes = nNew;
    sqlite3BtreeSetCacheSize(pTemp, db->aDb[iDb].pSchema->cache_size);
    sqlite3BtreeSetPagerFlags(pTemp, db->aDb[iDb].safety_level | (db->flags & PAGER_FLAGS_MASK)
                                     | PAGER_CACHESPILL);
    if( sqlite3BtreeSetPageSize(pTemp, sqlite3BtreeGetPageSize(pMain), nRes, 0)
     || sqlite3BtreeSetPageSize(pTemp, db->nextPagesize, nRes, 0) ) rc = SQLITE_NOMEM_BKPT;
    if( db->nextAutovac>=0 ) sqlite3BtreeSetAutoVacuum(pTemp, db->nextAutovac);
  }
  /* The schema may be read on the way, by statements that must not end the transaction. */
  if( rc==SQLITE_OK ) rc = execSql(db, pzErrMsg, "BEGIN");
  if( rc==SQLITE_OK ){
    db->mDbFlags |= DBFLAG_VacuumInto;
    rc = sqlite3BtreeBeginTrans(pMain, 0, 0);
    if( rc==SQLITE_OK ) rc = silicaCopyInto(db, pMain, pTemp);
    db->mDbFlags = dbFlags;
    db->autoCommit = 1;
  }
  sqlite3BtreeClose(pTemp);
  db->aDb[nDb].pBt = 0;
  db->aDb[nDb].pSchema = 0;
  sqlite3ResetAllSchemasOfConnection(db);
  return rc;
}

SQLITE_PRIVATE SQLITE_NOINLINE int sqlite3RunVacuum(
  char **pzErrMsg, sqlite3 *db, int iDb, sqlite3_value *pOut
){
  Btree *pMain = db->aDb[iDb].pBt;
  int rc;
  if( pMain && isSilica(pMain) ){
    if( !db->autoCommit ){
      sqlite3SetString(pzErrMsg, db, "cannot VACUUM from within a transaction");
      return SQLITE_ERROR;
    }
    if( db->nVdbeActive>1 ){
      sqlite3SetString(pzErrMsg, db, "cannot VACUUM - SQL statements in progress");
      return SQLITE_ERROR;
    }
    if( pOut ){
      if( sqlite3_value_type(pOut)!=SQLITE_TEXT ){
        sqlite3SetString(pzErrMsg, db, "non-text filename");
        return SQLITE_ERROR;
      }
      silicaOpensStock++;
      rc = silicaVacuumInto(pzErrMsg, db, iDb, (const char*)sqlite3_value_text(pOut));
      silicaOpensStock--;
      return rc;
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
