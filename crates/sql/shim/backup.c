/*
** Our functions before those of SQLite's backup.c, which copies pages: a Silica database has none.
** Where the source or the destination is one, entries are copied, tree by tree, and the schema last,
** with the numbers of the new trees. What is counted as pages is trees, so remaining and page
** count are lower bounds. A source that is written between two steps is copied from the
** beginning, as SQLite does if another connection wrote it.
*/
SQLITE_PRIVATE int sqlite3BtreeCopyFile(Btree *pTo, Btree *pFrom){
  if( isSilica(pTo) || isSilica(pFrom) ) return SQLITE_ERROR;
  return stock_sqlite3BtreeCopyFile(pTo, pFrom);
}

#define SILICA_STEP_BYTES 4096

/* A tree that is copied. */
typedef struct SilicaTree SilicaTree;
struct SilicaTree {
  Pgno iFrom;
  Pgno iTo;
  Pgno iTable;               /* Of the source: the root that is locked for it */
  KeyInfo *pKeyInfo;         /* NULL for rows */
};

/* The state of a copy between two steps; a backup has it in pNext, which SQLite's own use only while
** they are attached to a pager. */
typedef struct SilicaCopy SilicaCopy;
struct SilicaCopy {
  SilicaTree *aTree;         /* That of the schema is the last */
  int nTree;
  int iTree;                 /* Copied now */
  int isWithin;              /* Some of its entries are copied: the last is this */
  i64 iRow;
  u8 *pRecord;
  u32 nRecord;
  u32 nAlloc;
  u32 iVersion;              /* Of the source when the last step ended */
  i64 nChange;
  int iSchema;               /* Of the destination when it began */
  sqlite3 *pInto;            /* Whose VACUUM INTO it is; NULL for a backup */
};

static void silicaCopyClear(SilicaCopy *p){
  int i;
  for(i=0; i<p->nTree; i++) sqlite3KeyInfoUnref(p->aTree[i].pKeyInfo);
  sqlite3_free(p->aTree);
  sqlite3_free(p->pRecord);
  memset(p, 0, sizeof(*p));
}

static int silicaCopyAdd(SilicaCopy *p, Pgno iTable, Pgno iFrom, KeyInfo *pKeyInfo){
  SilicaTree *aNew;
  aNew = sqlite3Realloc(p->aTree, sizeof(SilicaTree)*(p->nTree+1));
  if( aNew==0 ){
    sqlite3KeyInfoUnref(pKeyInfo);
    return SQLITE_NOMEM_BKPT;
  }
  p->aTree = aNew;
  aNew[p->nTree].iFrom = iFrom;
  aNew[p->nTree].iTo = 0;
  aNew[p->nTree].iTable = iTable;
  aNew[p->nTree].pKeyInfo = pKeyInfo;
  p->nTree++;
  return SQLITE_OK;
}

/* Has the schema of the source in memory as its read transaction sees it. Another connection may
** have changed it since it was read; and reading it runs statements, with the last of which the
** transaction ends, so it is begun again. */
static int silicaCopySchema(sqlite3 *db, int iDb){
  Btree *pSrc = db->aDb[iDb].pBt;
  int nTry, rc = SQLITE_OK;
  for(nTry=0; nTry<100 && rc==SQLITE_OK; nTry++){
    u32 iCookie;
    if( pSrc->inTrans==TRANS_NONE ) rc = sqlite3BtreeBeginTrans(pSrc, 0, 0);
    if( rc!=SQLITE_OK ) break;
    sqlite3BtreeGetMeta(pSrc, BTREE_SCHEMA_VERSION, &iCookie);
    if( DbHasProperty(db, iDb, DB_SchemaLoaded) ){
      if( (u32)db->aDb[iDb].pSchema->schema_cookie==iCookie ) return SQLITE_OK;
      sqlite3ResetOneSchema(db, iDb);
    }else{
      char *zErr = 0;
      rc = sqlite3Init(db, &zErr);
      sqlite3DbFree(db, zErr);
    }
  }
  return rc==SQLITE_OK ? SQLITE_BUSY : rc;
}

/* Lists the trees of the source. */
static int silicaCopyTrees(SilicaCopy *p, sqlite3 *db, Btree *pSrc){
  Parse sParse;
  HashElem *pElem;
  int iDb, rc;
  for(iDb=0; iDb<db->nDb && db->aDb[iDb].pBt!=pSrc; iDb++){}
  if( iDb==db->nDb ) return SQLITE_ERROR;
  rc = silicaCopySchema(db, iDb);
  if( rc!=SQLITE_OK ) return rc;
  sqlite3ParseObjectInit(&sParse, db);
  for(pElem=sqliteHashFirst(&db->aDb[iDb].pSchema->tblHash); pElem && rc==SQLITE_OK;
      pElem=sqliteHashNext(pElem)){
    Table *pTab = (Table*)sqliteHashData(pElem);
    Index *pIdx;
    if( pTab->tnum==0 || !IsOrdinaryTable(pTab) ) continue;
    if( HasRowid(pTab) && pTab->tnum!=1 ) rc = silicaCopyAdd(p, pTab->tnum, pTab->tnum, 0);
    for(pIdx=pTab->pIndex; pIdx && rc==SQLITE_OK; pIdx=pIdx->pNext){
      KeyInfo *pKeyInfo;
      if( pIdx->tnum==0 ) continue;
      pKeyInfo = sqlite3KeyInfoOfIndex(&sParse, pIdx);
      if( pKeyInfo==0 ) rc = sParse.rc ? sParse.rc : SQLITE_NOMEM_BKPT;
      else rc = silicaCopyAdd(p, pTab->tnum, pIdx->tnum, pKeyInfo);
    }
  }
  sqlite3DbFree(db, sParse.zErrMsg);
  sqlite3ParseObjectReset(&sParse);
  if( rc==SQLITE_OK ) rc = silicaCopyAdd(p, SCHEMA_ROOT, SCHEMA_ROOT, 0);
  return rc;
}

/* The number of the new tree; itself for what is no tree. */
static i64 silicaCopyRoot(SilicaCopy *p, i64 iFrom){
  int i;
  for(i=0; i<p->nTree; i++){
    if( (i64)p->aTree[i].iFrom==iFrom ) return p->aTree[i].iTo;
  }
  return iFrom;
}

/* Changes the fourth column of the schema's record in pRecord, the root. The new record is as large
** or a few bytes larger, for which there is room. */
static int silicaCopySchemaRow(SilicaCopy *p){
  u8 aHeader[64];
  u32 aType[5], nHeader, nBody = 0, iOld;
  u64 iRoot;
  Mem mem;
  u8 *pNew;
  int i, n, nNew = 1;
  n = getVarint32(p->pRecord, nHeader);
  if( nHeader>p->nRecord || nHeader>40 ) return SQLITE_CORRUPT_BKPT;
  for(i=0; i<5; i++){
    if( (u32)n>=nHeader ) return SQLITE_CORRUPT_BKPT;
    n += getVarint32(p->pRecord+n, aType[i]);
    if( i<3 ) nBody += sqlite3VdbeSerialTypeLen(aType[i]);
  }
  iOld = sqlite3VdbeSerialTypeLen(aType[3]);
  if( aType[3]==0 || aType[3]>9 || aType[3]==7 ) return SQLITE_OK;
  if( (u64)nHeader+nBody+iOld>p->nRecord ) return SQLITE_CORRUPT_BKPT;
  memset(&mem, 0, sizeof(mem));
  sqlite3VdbeSerialGet(p->pRecord+nHeader+nBody, aType[3], &mem);
  iRoot = (u64)silicaCopyRoot(p, mem.u.i);
  for(i=0; i<5; i++) nNew += putVarint32(aHeader+nNew, i==3 ? 6 : aType[i]);
  aHeader[0] = (u8)nNew;
  pNew = sqlite3Malloc((u64)p->nRecord + sizeof(aHeader) + 8);
  if( pNew==0 ) return SQLITE_NOMEM_BKPT;
  memcpy(pNew, aHeader, nNew);
  memcpy(pNew+nNew, p->pRecord+nHeader, nBody);
  for(i=0; i<8; i++) pNew[nNew+nBody+i] = (u8)(iRoot>>(56-8*i));
  memcpy(pNew+nNew+nBody+8, p->pRecord+nHeader+nBody+iOld, p->nRecord-nHeader-nBody-iOld);
  p->nRecord += (u32)nNew + 8 - nHeader - iOld;
  p->nAlloc = p->nRecord;
  sqlite3_free(p->pRecord);
  p->pRecord = pNew;
  return SQLITE_OK;
}

/* Moves to the first entry that is not copied yet; *pEof where there is none. */
static int silicaCopySeek(SilicaCopy *p, BtCursor *pCur, int *pEof){
  int rc, c = -1;
  if( !p->isWithin ) return sqlite3BtreeFirst(pCur, pEof);
  if( pCur->pKeyInfo ){
    UnpackedRecord *pKey = sqlite3VdbeAllocUnpackedRecord(pCur->pKeyInfo);
    if( pKey==0 ) return SQLITE_NOMEM_BKPT;
    sqlite3VdbeRecordUnpack((int)p->nRecord, p->pRecord, pKey);
    pKey->default_rc = 0;
    rc = sqlite3BtreeIndexMoveto(pCur, pKey, &c);
    sqlite3DbFree(pCur->pKeyInfo->db, pKey);
  }else{
    rc = sqlite3BtreeTableMoveto(pCur, p->iRow, 0, &c);
  }
  if( rc==SQLITE_OK && c<=0 ) rc = sqlite3BtreeNext(pCur, 0);
  *pEof = rc==SQLITE_DONE;
  return rc==SQLITE_DONE ? SQLITE_OK : rc;
}

static int silicaCopyEntry(SilicaCopy *p, BtCursor *pFrom, BtCursor *pTo, int isSchema){
  BtreePayload x;
  u32 n = sqlite3BtreePayloadSize(pFrom);
  int rc;
  if( n>p->nAlloc || p->pRecord==0 ){
    u8 *pNew = sqlite3Realloc(p->pRecord, (u64)n+16);
    if( pNew==0 ) return SQLITE_NOMEM_BKPT;
    p->pRecord = pNew;
    p->nAlloc = n;
  }
  p->nRecord = n;
  rc = sqlite3BtreePayload(pFrom, 0, n, p->pRecord);
  if( pFrom->pKeyInfo==0 ) p->iRow = sqlite3BtreeIntegerKey(pFrom);
  if( rc==SQLITE_OK && isSchema ) rc = silicaCopySchemaRow(p);
  if( rc!=SQLITE_OK ) return rc;
  memset(&x, 0, sizeof(x));
  if( pFrom->pKeyInfo ){
    x.pKey = p->pRecord;
    x.nKey = p->nRecord;
  }else{
    x.nKey = p->iRow;
    x.pData = p->pRecord;
    x.nData = (int)p->nRecord;
  }
  return sqlite3BtreeInsert(pTo, &x, BTREE_APPEND, 0);
}

/* Copies about *pnByte bytes of the tree that is next, and takes what was copied off. */
static int silicaCopyTree(SilicaCopy *p, Btree *pSrc, Btree *pDest, i64 *pnByte){
  SilicaTree *pTree = &p->aTree[p->iTree];
  int isSchema = p->iTree==p->nTree-1, isEof = 0, rc = SQLITE_OK;
  BtCursor from, to;
  if( pTree->iTo==0 ){
    pTree->iTo = 1;
    if( !isSchema ){
      rc = sqlite3BtreeCreateTable(pDest, &pTree->iTo,
                                   pTree->pKeyInfo ? BTREE_BLOBKEY : BTREE_INTKEY);
    }
  }
  if( rc!=SQLITE_OK ) return rc;
  memset(&from, 0, sizeof(from));
  memset(&to, 0, sizeof(to));
  /* Which costs nothing but where SQLite's connections share a cache. */
  rc = sqlite3BtreeLockTable(pSrc, (int)pTree->iTable, 0);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeLockTable(pDest, (int)pTree->iTo, 1);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeCursor(pSrc, pTree->iFrom, 0, pTree->pKeyInfo, &from);
  if( rc==SQLITE_OK ){
    rc = sqlite3BtreeCursor(pDest, pTree->iTo, BTREE_WRCSR, pTree->pKeyInfo, &to);
  }
  if( rc==SQLITE_OK ) rc = silicaCopySeek(p, &from, &isEof);
  while( rc==SQLITE_OK && !isEof && *pnByte>0 ){
    rc = silicaCopyEntry(p, &from, &to, isSchema);
    if( rc==SQLITE_OK && p->pInto && AtomicLoad(&p->pInto->u1.isInterrupted) ){
      rc = SQLITE_INTERRUPT;
    }
    if( rc!=SQLITE_OK ) break;
    p->isWithin = 1;
    *pnByte -= p->nRecord;
    rc = sqlite3BtreeNext(&from, 0);
    if( rc==SQLITE_DONE ){
      isEof = 1;
      rc = SQLITE_OK;
    }
  }
  if( from.pBtree ) sqlite3BtreeCloseCursor(&from);
  if( to.pBtree ) sqlite3BtreeCloseCursor(&to);
  if( rc==SQLITE_OK && isEof ){
    p->iTree++;
    p->isWithin = 0;
    *pnByte -= SILICA_STEP_BYTES;
  }
  return rc;
}

/* What tells one state of the source from another. */
static void silicaCopyVersion(sqlite3_backup *p, u32 *piVersion, i64 *pnChange){
  sqlite3BtreeGetMeta(p->pSrc, BTREE_DATA_VERSION, piVersion);
  *pnChange = p->pSrcDb->nTotalChange;
}

/* The last step: what is no tree, and the commit. */
static int silicaCopyEnd(sqlite3_backup *p, SilicaCopy *pCopy){
  static const u8 aMeta[] = {
    BTREE_FILE_FORMAT, BTREE_DEFAULT_CACHE_SIZE, BTREE_TEXT_ENCODING, BTREE_USER_VERSION,
    BTREE_APPLICATION_ID
  };
  int i, rc = SQLITE_OK;
  for(i=0; rc==SQLITE_OK && i<ArraySize(aMeta); i++){
    u32 value;
    sqlite3BtreeGetMeta(p->pSrc, aMeta[i], &value);
    rc = sqlite3BtreeUpdateMeta(p->pDest, aMeta[i], value);
  }
  if( rc==SQLITE_OK ){
    u32 iSchema = (u32)pCopy->iSchema;
    if( pCopy->pInto ) sqlite3BtreeGetMeta(p->pSrc, BTREE_SCHEMA_VERSION, &iSchema);
    rc = sqlite3BtreeUpdateMeta(p->pDest, BTREE_SCHEMA_VERSION, iSchema+1);
  }
  if( rc==SQLITE_OK && p->pDestDb ) sqlite3ResetAllSchemasOfConnection(p->pDestDb);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeCommitPhaseOne(p->pDest, 0);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeCommitPhaseTwo(p->pDest, 0);
  if( rc==SQLITE_OK ) p->bDestLocked = 0;
  return rc==SQLITE_OK ? SQLITE_DONE : rc;
}

static int silicaCopyStep(sqlite3_backup *p, Btree *pDest, int nPage){
  SilicaCopy *pCopy = (SilicaCopy*)p->pNext;
  i64 nByte = nPage<0 ? LARGEST_INT64/2 : (i64)nPage*SILICA_STEP_BYTES;
  i64 nChange;
  u32 iVersion;
  int rc = SQLITE_OK;
  if( pCopy==0 ){
    pCopy = sqlite3MallocZero(sizeof(*pCopy));
    if( pCopy==0 ) return SQLITE_NOMEM_BKPT;
    p->pNext = (sqlite3_backup*)pCopy;
  }
  if( !p->bDestLocked ){
    rc = sqlite3BtreeBeginTrans(pDest, 2, &pCopy->iSchema);
    if( rc!=SQLITE_OK ) return rc;
    p->bDestLocked = 1;
    p->pDest = pDest;
    /* Where connections share a cache: all tables, and indexes that no schema knows yet. */
    rc = sqlite3BtreeLockTable(pDest, SCHEMA_ROOT, 1);
    if( rc!=SQLITE_OK ) return rc;
  }
  silicaCopyVersion(p, &iVersion, &nChange);
  if( pCopy->nTree==0 || iVersion!=pCopy->iVersion || nChange!=pCopy->nChange ){
    int iSchema = pCopy->iSchema;
    sqlite3 *pInto = pCopy->pInto;
    silicaCopyClear(pCopy);
    pCopy->iSchema = iSchema;
    pCopy->pInto = pInto;
    rc = sqlite3BtreeNewDb(pDest);
    if( rc==SQLITE_OK ) rc = silicaCopyTrees(pCopy, p->pSrcDb, p->pSrc);
    silicaCopyVersion(p, &pCopy->iVersion, &pCopy->nChange);
  }
  while( rc==SQLITE_OK && pCopy->iTree<pCopy->nTree && nByte>0 ){
    rc = silicaCopyTree(pCopy, p->pSrc, pDest, &nByte);
  }
  p->nPagecount = (Pgno)pCopy->nTree;
  p->nRemaining = (Pgno)(pCopy->nTree-pCopy->iTree);
  if( rc==SQLITE_OK && pCopy->iTree==pCopy->nTree ) rc = silicaCopyEnd(p, pCopy);
  return rc;
}

/* Copies a Silica database of `db` into a new one, in a transaction that it begins and commits. */
static int silicaCopyInto(sqlite3 *db, Btree *pSrc, Btree *pDest){
  sqlite3_backup backup;
  SilicaCopy copy;
  int rc;
  memset(&backup, 0, sizeof(backup));
  memset(&copy, 0, sizeof(copy));
  copy.pInto = db;
  backup.pSrcDb = db;
  backup.pSrc = pSrc;
  backup.pNext = (sqlite3_backup*)&copy;
  sqlite3BtreeEnter(pSrc);
  sqlite3BtreeEnter(pDest);
  rc = silicaCopyStep(&backup, pDest, -1);
  sqlite3BtreeLeave(pDest);
  sqlite3BtreeLeave(pSrc);
  silicaCopyClear(&copy);
  return rc==SQLITE_DONE ? SQLITE_OK : rc;
}

SQLITE_API int sqlite3_backup_step(sqlite3_backup *p, int nPage){
  Btree *pDest;
  int rc, closes = 0;
  if( p==0 || p->pDestDb==0 ) return stock_sqlite3_backup_step(p, nPage);
  sqlite3_mutex_enter(p->pSrcDb->mutex);
  sqlite3_mutex_enter(p->pDestDb->mutex);
  pDest = p->pDest ? p->pDest : findBtree(p->pDestDb, p->pDestDb, p->zDestDb);
  if( pDest==0 || !(isSilica(p->pSrc) || isSilica(pDest)) ){
    sqlite3_mutex_leave(p->pDestDb->mutex);
    sqlite3_mutex_leave(p->pSrcDb->mutex);
    return stock_sqlite3_backup_step(p, nPage);
  }
  rc = p->rc;
  if( !isFatalError(rc) && rc!=SQLITE_DONE ){
    rc = p->pSrc->inTrans==TRANS_WRITE ? SQLITE_BUSY : SQLITE_OK;
    if( rc==SQLITE_OK && p->pSrc->inTrans==TRANS_NONE ){
      rc = sqlite3BtreeBeginTrans(p->pSrc, 0, 0);
      closes = rc==SQLITE_OK;
    }
    if( rc==SQLITE_OK ){
      sqlite3BtreeEnter(p->pSrc);
      sqlite3BtreeEnter(pDest);
      rc = silicaCopyStep(p, pDest, nPage);
      sqlite3BtreeLeave(pDest);
      sqlite3BtreeLeave(p->pSrc);
    }
    if( closes ){
      sqlite3BtreeCommitPhaseOne(p->pSrc, 0);
      sqlite3BtreeCommitPhaseTwo(p->pSrc, 0);
    }
    if( rc==SQLITE_IOERR_NOMEM ) rc = SQLITE_NOMEM_BKPT;
    p->rc = rc;
  }
  sqlite3_mutex_leave(p->pDestDb->mutex);
  sqlite3_mutex_leave(p->pSrcDb->mutex);
  return rc;
}

SQLITE_API int sqlite3_backup_finish(sqlite3_backup *p){
  if( p && !p->isAttached && p->pNext && p->pDestDb ){
    sqlite3_mutex_enter(p->pSrcDb->mutex);
    silicaCopyClear((SilicaCopy*)p->pNext);
    sqlite3_free(p->pNext);
    p->pNext = 0;
    sqlite3_mutex_leave(p->pSrcDb->mutex);
  }
  return stock_sqlite3_backup_finish(p);
}

