/********************************** Writing **********************************/

/* A record that sqlite3BtreeTransferRow() took from a tree for the insert that comes next, where
** one of the two trees is ours. */
typedef struct SilicaTransfer SilicaTransfer;
struct SilicaTransfer {
  Btree *pTo;
  u8 *pRecord;
  u32 nRecord;
  i64 iKey;
};
static SQLITE_THREAD_LOCAL SilicaTransfer silicaTransfer = {0, 0, 0, 0};

SQLITE_PRIVATE int sqlite3BtreeTransferRow(BtCursor *pDest, BtCursor *pSrc, i64 iKey){
  u32 n;
  int rc;
  if( !isSilica(pDest->pBtree) && !isSilica(pSrc->pBtree) ){
    return stock_sqlite3BtreeTransferRow(pDest, pSrc, iKey);
  }
  n = sqlite3BtreePayloadSize(pSrc);
  sqlite3_free(silicaTransfer.pRecord);
  silicaTransfer.pTo = 0;
  silicaTransfer.pRecord = sqlite3Malloc(n ? n : 1);
  if( silicaTransfer.pRecord==0 ) return SQLITE_NOMEM_BKPT;
  rc = sqlite3BtreePayload(pSrc, 0, n, silicaTransfer.pRecord);
  if( rc==SQLITE_OK ){
    silicaTransfer.pTo = pDest->pBtree;
    silicaTransfer.nRecord = n;
    silicaTransfer.iKey = iKey;
  }
  return rc;
}

/* Inserts what silicaTransfer has. */
static int silicaInsertTransferred(BtCursor *pCur, int flags, int seekResult){
  BtreePayload x;
  int rc;
  memset(&x, 0, sizeof(x));
  if( pCur->pKeyInfo ){
    x.pKey = silicaTransfer.pRecord;
    x.nKey = silicaTransfer.nRecord;
  }else{
    x.nKey = silicaTransfer.iKey;
    x.pData = silicaTransfer.pRecord;
    x.nData = (int)silicaTransfer.nRecord;
  }
  silicaTransfer.pTo = 0;
  rc = sqlite3BtreeInsert(pCur, &x, flags & ~BTREE_PREFORMAT, seekResult);
  sqlite3_free(silicaTransfer.pRecord);
  silicaTransfer.pRecord = 0;
  return rc;
}

static int silicaInsertKey(BtCursor *pCur, const BtreePayload *pX){
  SilicaKey key;
  KeyInfo *pKeyInfo = pCur->pKeyInfo;
  UnpackedRecord *pRecord = 0;
  Mem *aMem = pX->aMem;
  int nMem = pX->nMem, rc;
  if( nMem<pKeyInfo->nKeyField ){
    pRecord = sqlite3VdbeAllocUnpackedRecord(pKeyInfo);
    if( pRecord==0 ) return SQLITE_NOMEM_BKPT;
    sqlite3VdbeRecordUnpack((int)pX->nKey, pX->pKey, pRecord);
    aMem = pRecord->aMem;
    nMem = pRecord->nField;
    if( nMem<pKeyInfo->nKeyField ){
      sqlite3DbFree(pKeyInfo->db, pRecord);
      return SQLITE_CORRUPT_BKPT;
    }
  }
  rc = silicaKeyInit(&key, pKeyInfo, aMem, nMem);
  if( rc==SQLITE_OK ){
    rc = silica_sql_cursor_put_key(silicaCursor(pCur), key.aField, key.nField, pX->pKey,
                                   (u32)pX->nKey);
  }
  silicaKeyClear(&key);
  if( pRecord ) sqlite3DbFree(pKeyInfo->db, pRecord);
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeInsert(
  BtCursor *pCur, const BtreePayload *pX, int flags, int seekResult
){
  Btree *p = pCur->pBtree;
  int rc;
  if( (flags & BTREE_PREFORMAT) && silicaTransfer.pTo==p ){
    return silicaInsertTransferred(pCur, flags, seekResult);
  }
  if( !isSilica(p) ) return stock_sqlite3BtreeInsert(pCur, pX, flags, seekResult);
  SILICA_FAULT(pCur);
  if( silicaIsFull(p, pCur->pKeyInfo ? (u64)pX->nKey : (u64)pX->nData+pX->nZero) ){
    return SQLITE_FULL;
  }
  rc = silicaMarkCursors(p, pCur->pgnoRoot, pCur);
  if( rc!=SQLITE_OK ) return rc;
  if( pCur->pKeyInfo ){
    rc = silicaInsertKey(pCur, pX);
  }else{
    silicaEndBlobs(p, pCur->pgnoRoot, pX->nKey, 0);
    rc = silica_sql_cursor_put_row(silicaCursor(pCur), pX->nKey, pX->pData, (u32)pX->nData,
                                   (u32)pX->nZero);
  }
  return silicaEnd(pCur, rc, 0);
}

SQLITE_PRIVATE int sqlite3BtreeDelete(BtCursor *pCur, u8 flags){
  Btree *p = pCur->pBtree;
  int rc;
  if( !isSilica(p) ) return stock_sqlite3BtreeDelete(pCur, flags);
  SILICA_FAULT(pCur);
  rc = silicaSettle(pCur);
  if( rc==SQLITE_OK && pCur->eState==CURSOR_REQUIRESEEK ){
    int isOther;
    rc = sqlite3BtreeCursorRestore(pCur, &isOther);
    if( rc==SQLITE_OK && isOther ) return SQLITE_OK;
  }
  if( rc!=SQLITE_OK ) return rc;
  if( pCur->eState!=CURSOR_VALID ) return SQLITE_CORRUPT_BKPT;
  rc = silicaMarkCursors(p, pCur->pgnoRoot, pCur);
  if( rc!=SQLITE_OK ) return rc;
  if( pCur->pKeyInfo==0 ){
    silicaEndBlobs(p, pCur->pgnoRoot, silica_sql_cursor_rowid(silicaCursor(pCur)), 0);
  }
  rc = silica_sql_cursor_delete(silicaCursor(pCur));
  pCur->ix = 0;
  /* What is there is gone, and a move goes on from its place. */
  pCur->eState = rc==SQLITE_OK ? CURSOR_REQUIRESEEK : CURSOR_INVALID;
  return silicaError(p, rc);
}

/********************************* The whole *********************************/

SQLITE_PRIVATE int sqlite3BtreeCount(sqlite3 *db, BtCursor *pCur, i64 *pnEntry){
  if( !isSilica(pCur->pBtree) ) return stock_sqlite3BtreeCount(db, pCur, pnEntry);
  *pnEntry = 0;
  return silicaError(pCur->pBtree, silica_sql_cursor_count(silicaCursor(pCur), (int64_t*)pnEntry));
}

SQLITE_PRIVATE i64 sqlite3BtreeRowCountEst(BtCursor *pCur){
  return isSilica(pCur->pBtree) ? -1 : stock_sqlite3BtreeRowCountEst(pCur);
}

/* Counts each tree by walking through it; the machine then compares rows with their keys. */
SQLITE_PRIVATE int sqlite3BtreeIntegrityCheck(
  sqlite3 *db, Btree *p, Pgno *aRoot, sqlite3_value *aCnt, int nRoot, int mxErr, int *pnErr,
  char **pzOut
){
  int i, rc = SQLITE_OK;
  if( !isSilica(p) ){
    return stock_sqlite3BtreeIntegrityCheck(db, p, aRoot, aCnt, nRoot, mxErr, pnErr, pzOut);
  }
  *pnErr = 0;
  *pzOut = 0;
  for(i=0; rc==SQLITE_OK && i<nRoot; i++){
    i64 nEntry = 0;
    if( aRoot[i] ){
      SilicaCursor *pCursor = 0;
      rc = silica_sql_cursor_open(silicaDb(p), aRoot[i], 0, 0, &pCursor);
      if( rc==SQLITE_OK ){
        rc = silica_sql_cursor_count(pCursor, (int64_t*)&nEntry);
        silica_sql_cursor_close(pCursor);
      }
    }
    sqlite3MemSetArrayInt64(aCnt, i, nEntry);
  }
  if( rc!=SQLITE_OK && rc!=SQLITE_NOMEM ){
    *pnErr = 1;
    *pzOut = sqlite3_mprintf("%s", silica_sql_message(silicaDb(p)));
    rc = SQLITE_OK;
  }
  return rc;
}

SQLITE_PRIVATE void sqlite3BtreeClearCache(Btree *p){
  if( !isSilica(p) ) stock_sqlite3BtreeClearCache(p);
}
