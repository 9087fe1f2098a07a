/*
** Our functions before those of SQLite's btree.c: here what concerns a database, in cursor.c and
** write.c the rest. Each looks at the handle: a database of Silica goes to silica_store.h,
** everything else to SQLite's own function, whose name is stock_... here.
** This text stands in the amalgamation right behind btree.c and sees what btree.c sees.
**
** 1. A Silica database is a Btree that SQLite opened itself, in memory and empty, with a mark in
**    its table lock, which only shared caches use. What is not fronted sees an empty database in
**    memory, and its Pager.
** 2. A cursor's eState says what SQLite's says: VALID at an entry, INVALID nowhere, REQUIRESEEK
**    after its tree was written by another cursor, FAULT after a rollback. The place itself is
**    the SilicaCursor's, which the cursor has in pPage.
** 3. After a seek that missed, the cursor is VALID and `ix` is IS_BETWEEN until somebody asks
**    whether there is an entry.
*/
#define SILICA_MARK 0xfffffff1u
#define IS_BETWEEN 1

typedef struct SilicaHandle SilicaHandle;
struct SilicaHandle {
  SilicaDb *pDb;             /* NULL before the first transaction */
  char *zPath;               /* As SQLite calls the database */
  char *zDirectory;
  char *zOptions;
  int flags;                 /* For silica_sql_open() */
  int level;                 /* PAGER_SYNCHRONOUS_OFF and so on */
  BtCursor *pCursors;        /* All open ones */
  struct SilicaStatements *pStatements; /* Of the connection whose main database it is */
  u64 expired;               /* How often that has expired its statements */
  int keepsNoStatements;
  i64 mmapBytes;             /* What PRAGMA mmap_size says; without effect */
  Pgno mxPage;               /* What PRAGMA max_page_count says */
};

/* As many as SQLite's files may have. */
#define SILICA_PAGES_MAX 0xfffffffe
#define SILICA_PAGE_BYTES 4096

/* In statements.c. */
static void silicaDropAll(struct SilicaStatements*);

#define isSilica(p) ((p)->lock.iTable==SILICA_MARK)
#define silicaHandle(p) ((SilicaHandle*)(p)->lock.pNext)
#define silicaDb(p) (silicaHandle(p)->pDb)
#define silicaCursor(pCur) ((SilicaCursor*)(pCur)->pPage)

/* The statement that is compiled is not to be kept. */
static SQLITE_THREAD_LOCAL int silicaIsNotKept = 0;

/* Databases that are opened while this is not 0 are SQLite's own files. */
static SQLITE_THREAD_LOCAL int silicaOpensStock = 0;

/* Remembers the words of an error. A database that is locked is no error but an answer, which
** programs know by SQLite's own text. */
static int silicaSays(int rc, const char *zMessage){
  silicaWordsCode = 0;
  if( zMessage && zMessage[0] ){
    sqlite3_snprintf(sizeof(silicaWords), silicaWords, "%s: %s", sqlite3ErrStr(rc), zMessage);
    silicaWordsCode = rc;
    sqlite3_log(rc, "%s", zMessage);
  }
  return rc;
}

static int silicaError(Btree *p, int rc){
  if( rc!=SQLITE_OK && rc!=SQLITE_DONE && (rc&0xff)!=SQLITE_BUSY && silicaDb(p) ){
    silicaSays(rc, silica_sql_message(silicaDb(p)));
  }
  return rc;
}

/* Looks again where the store is: the directory may have got another name since the opening. */
static void silicaFindAgain(SilicaHandle *pHandle){
  char *zDirectory = 0, *zMessage = 0;
  int kind;
  int rc = silica_sql_place(pHandle->zPath, (pHandle->flags & SILICA_READ_ONLY)!=0, 0, 0, 0, &kind,
                            &zDirectory, &zMessage);
  if( rc==SQLITE_OK && zDirectory ){
    silica_sql_free_text(pHandle->zDirectory);
    pHandle->zDirectory = zDirectory;
  }
  if( zMessage ) silica_sql_free_text(zMessage);
}

/* The store is opened when somebody first needs it. */
static int silicaConnect(Btree *p){
  SilicaHandle *pHandle = silicaHandle(p);
  char *zMessage = 0;
  int rc;
  if( pHandle->pDb ) return SQLITE_OK;
  silicaFindAgain(pHandle);
  rc = silica_sql_open(pHandle->zDirectory, pHandle->flags, pHandle->zOptions, &pHandle->pDb,
                       &zMessage);
  if( rc!=SQLITE_OK ){
    silicaSays(rc, zMessage);
    pHandle->pDb = 0;
  }
  if( zMessage ) silica_sql_free_text(zMessage);
  return rc;
}

/**************************** Opening and closing ****************************/

/* What the URI says of the store, for silica_sql_open(); NULL for nothing. */
static char *silicaOptions(const char *zFilename){
  static const char *const azName[] = { "memory_bytes", "results_bytes", "transaction_bytes" };
  char *zOptions = 0;
  int i;
  for(i=0; i<ArraySize(azName); i++){
    const char *zValue = sqlite3_uri_parameter(zFilename, azName[i]);
    if( zValue ){
      zOptions = sqlite3_mprintf("%z%s%s=%s", zOptions, zOptions ? "&" : "", azName[i], zValue);
    }
  }
  return zOptions;
}

/* The empty database in memory that stands for one of ours. */
static int silicaOpenEmpty(sqlite3_vfs *pVfs, sqlite3 *db, Btree **pp, int vfsFlags){
  return stock_sqlite3BtreeOpen(pVfs, ":memory:", db, pp, BTREE_MEMORY,
             (vfsFlags & ~(SQLITE_OPEN_SHAREDCACHE|SQLITE_OPEN_URI)) | SQLITE_OPEN_MEMORY);
}

static void silicaMark(Btree *p, SilicaHandle *pHandle){
  pHandle->mxPage = SILICA_PAGES_MAX;
  pHandle->mmapBytes = p->db->szMmap;
  p->lock.iTable = SILICA_MARK;
  p->lock.pNext = (BtLock*)pHandle;
  p->pBt->pPager->pVfs = silicaVfs();
}

/* Opens a database in a store that the program has open: a URI has the number of a ticket, which
** Rust has given for this one opening. */
static int silicaOpenInStore(
  const char *zFilename, sqlite3 *db, Btree **ppBtree, int vfsFlags
){
  SilicaHandle *pHandle = sqlite3MallocZero(sizeof(*pHandle));
  char *zMessage = 0;
  Btree *p = 0;
  int rc;
  *ppBtree = 0;
  if( pHandle==0 ) return SQLITE_NOMEM_BKPT;
  pHandle->level = PAGER_SYNCHRONOUS_FULL;
  pHandle->zPath = sqlite3_mprintf("%s", zFilename);
  rc = pHandle->zPath ? silicaOpenEmpty(db->pVfs, db, &p, vfsFlags) : SQLITE_NOMEM_BKPT;
  if( rc==SQLITE_OK ){
    rc = silica_sql_open_in_store(sqlite3_uri_parameter(zFilename, "silica_store"),
                                  &pHandle->pDb, &zMessage);
    if( rc!=SQLITE_OK ) stock_sqlite3BtreeClose(p);
  }
  if( rc!=SQLITE_OK ){
    silicaSays(rc, zMessage);
    if( zMessage ) silica_sql_free_text(zMessage);
    sqlite3_free(pHandle->zPath);
    sqlite3_free(pHandle);
    return rc;
  }
  silicaMark(p, pHandle);
  *ppBtree = p;
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeOpen(
  sqlite3_vfs *pVfs, const char *zFilename, sqlite3 *db, Btree **ppBtree, int flags, int vfsFlags
){
  char *zPath = 0, *zDirectory = 0, *zMessage = 0;
  SilicaHandle *pHandle;
  Btree *p = 0;
  int rc, kind;
  int isMain = zFilename && zFilename[0] && (vfsFlags & SQLITE_OPEN_MAIN_DB)!=0
      && (vfsFlags & SQLITE_OPEN_MEMORY)==0 && (flags & (BTREE_MEMORY|BTREE_SINGLE))==0
      && strcmp(zFilename, ":memory:")!=0 && !silicaOpensStock
      && pVfs->zName && strncmp(pVfs->zName, "unix", 4)==0;
  silicaWordsCode = 0;
  if( isMain && sqlite3_uri_parameter(zFilename, "silica_store") ){
    return silicaOpenInStore(zFilename, db, ppBtree, vfsFlags);
  }
  if( !isMain ) return stock_sqlite3BtreeOpen(pVfs, zFilename, db, ppBtree, flags, vfsFlags);
  *ppBtree = 0;
  zPath = sqlite3Malloc(pVfs->mxPathname+2);
  if( zPath==0 ) return SQLITE_NOMEM_BKPT;
  rc = sqlite3OsFullPathname(pVfs, zFilename, pVfs->mxPathname, zPath);
  if( rc==SQLITE_OK_SYMLINK ){
    rc = (vfsFlags & SQLITE_OPEN_NOFOLLOW) ? SQLITE_CANTOPEN_SYMLINK : SQLITE_OK;
  }
  if( rc!=SQLITE_OK ){
    sqlite3_free(zPath);
    return rc;
  }
  rc = silica_sql_place(zPath, (vfsFlags & SQLITE_OPEN_READONLY)!=0,
                        (vfsFlags & SQLITE_OPEN_CREATE)!=0,
                        sqlite3_uri_parameter(zFilename, "storage"),
                        sqlite3_uri_boolean(zFilename, "immutable", 0)
                          || sqlite3_uri_parameter(zFilename, "vfs")!=0,
                        &kind, &zDirectory, &zMessage);
  if( rc!=SQLITE_OK ){
    silicaSays(rc, zMessage);
    if( zMessage ) silica_sql_free_text(zMessage);
    sqlite3_free(zPath);
    return rc;
  }
  if( kind==SILICA_PLACE_STOCK ){
    sqlite3_free(zPath);
    return stock_sqlite3BtreeOpen(pVfs, zFilename, db, ppBtree, flags, vfsFlags);
  }
  pHandle = sqlite3MallocZero(sizeof(*pHandle));
  rc = pHandle ? SQLITE_OK : SQLITE_NOMEM_BKPT;
  if( rc==SQLITE_OK ) rc = silicaOpenEmpty(pVfs, db, &p, vfsFlags);
  if( rc!=SQLITE_OK ){
    sqlite3_free(pHandle);
    sqlite3_free(zPath);
    silica_sql_free_text(zDirectory);
    return rc;
  }
  pHandle->zPath = zPath;
  pHandle->zDirectory = zDirectory;
  pHandle->level = PAGER_SYNCHRONOUS_FULL;
  if( kind==SILICA_PLACE_READ_ONLY ) pHandle->flags = SILICA_READ_ONLY;
  else pHandle->flags = SILICA_CREATE;
  pHandle->zOptions = silicaOptions(zFilename);
  pHandle->keepsNoStatements = !sqlite3_uri_boolean(zFilename, "keep_statements", 1);
  silicaMark(p, pHandle);
  *ppBtree = p;
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeClose(Btree *p){
  if( isSilica(p) ){
    SilicaHandle *pHandle = silicaHandle(p);
    BtCursor *pCur;
    while( (pCur = pHandle->pCursors)!=0 ) sqlite3BtreeCloseCursor(pCur);
    sqlite3BtreeRollback(p, SQLITE_OK, 0);
    if( pHandle->pDb ) silica_sql_close(pHandle->pDb);
    p->lock.iTable = 1;
    p->lock.pNext = 0;
    p->pBt->pPager->pVfs = p->db->pVfs;
    if( pHandle->zDirectory ) silica_sql_free_text(pHandle->zDirectory);
    sqlite3_free(pHandle->zPath);
    sqlite3_free(pHandle->zOptions);
    /* Virtual tables finalize statements of theirs while the connection closes. */
    if( pHandle->pStatements ) silicaDropAll(pHandle->pStatements);
    sqlite3_free(pHandle->pStatements);
    sqlite3_free(pHandle);
  }
  return stock_sqlite3BtreeClose(p);
}

SQLITE_PRIVATE const char *sqlite3BtreeGetFilename(Btree *p){
  return isSilica(p) ? silicaHandle(p)->zPath : stock_sqlite3BtreeGetFilename(p);
}

SQLITE_PRIVATE const char *sqlite3BtreeGetJournalname(Btree *p){
  return isSilica(p) ? "" : stock_sqlite3BtreeGetJournalname(p);
}

SQLITE_PRIVATE int sqlite3BtreeIsReadonly(Btree *p){
  if( isSilica(p) ) return (silicaHandle(p)->flags & SILICA_READ_ONLY)!=0;
  return stock_sqlite3BtreeIsReadonly(p);
}

SQLITE_PRIVATE int sqlite3BtreeSetPagerFlags(Btree *p, unsigned pgFlags){
  if( isSilica(p) ){
    silicaHandle(p)->level = pgFlags & PAGER_SYNCHRONOUS_MASK;
    return SQLITE_OK;
  }
  return stock_sqlite3BtreeSetPagerFlags(p, pgFlags);
}

SQLITE_PRIVATE int sqlite3BtreeSetPageSize(Btree *p, int nPage, int nReserve, int eFix){
  return isSilica(p) ? SQLITE_OK : stock_sqlite3BtreeSetPageSize(p, nPage, nReserve, eFix);
}

/* Database pages do not exist; their number bounds the roots that a schema may name. */
SQLITE_PRIVATE Pgno sqlite3BtreeLastPage(Btree *p){
  if( isSilica(p) ){
    u64 nPage;
    if( silicaConnect(p)!=SQLITE_OK ) return 0;
    nPage = silica_sql_bytes(silicaDb(p))/SILICA_PAGE_BYTES;
    if( nPage>SILICA_PAGES_MAX ) nPage = SILICA_PAGES_MAX;
    return MAX((Pgno)nPage, silica_sql_last_root(silicaDb(p)));
  }
  return stock_sqlite3BtreeLastPage(p);
}

SQLITE_PRIVATE Pgno sqlite3BtreeMaxPageCount(Btree *p, Pgno mxPage){
  if( isSilica(p) ){
    if( mxPage>0 ) silicaHandle(p)->mxPage = mxPage;
    return silicaHandle(p)->mxPage;
  }
  return stock_sqlite3BtreeMaxPageCount(p, mxPage);
}

/* True if what is stored, and what the transaction has written, would be more with nByte bytes than
** max_page_count says. */
static int silicaIsFull(Btree *p, u64 nByte){
  u64 n;
  if( silicaHandle(p)->mxPage>=SILICA_PAGES_MAX ) return 0;
  n = silica_sql_bytes(silicaDb(p)) + silica_sql_written_bytes(silicaDb(p));
  return n+nByte > (u64)silicaHandle(p)->mxPage*SILICA_PAGE_BYTES;
}

static i64 silicaMmapBytes(i64 n){
  return n<0 ? 0 : MIN(n, sqlite3GlobalConfig.mxMmap);
}

SQLITE_PRIVATE int sqlite3BtreeSetMmapLimit(Btree *p, sqlite3_int64 szMmap){
  if( isSilica(p) ){
    silicaHandle(p)->mmapBytes = silicaMmapBytes(szMmap);
    return SQLITE_OK;
  }
  return stock_sqlite3BtreeSetMmapLimit(p, szMmap);
}

SQLITE_PRIVATE int sqlite3BtreeSetAutoVacuum(Btree *p, int autoVacuum){
  return isSilica(p) ? SQLITE_OK : stock_sqlite3BtreeSetAutoVacuum(p, autoVacuum);
}

SQLITE_PRIVATE int sqlite3BtreeIncrVacuum(Btree *p){
  return isSilica(p) ? SQLITE_DONE : stock_sqlite3BtreeIncrVacuum(p);
}

SQLITE_PRIVATE int sqlite3BtreeSetVersion(Btree *p, int iVersion){
  return isSilica(p) ? SQLITE_OK : stock_sqlite3BtreeSetVersion(p, iVersion);
}

#ifndef SQLITE_OMIT_WAL
SQLITE_PRIVATE int sqlite3BtreeCheckpoint(Btree *p, int eMode, int *pnLog, int *pnCkpt){
  if( p && isSilica(p) ){
    int rc = SQLITE_OK;
    if( pnLog ) *pnLog = 0;
    if( pnCkpt ) *pnCkpt = 0;
    if( silicaDb(p) ) rc = silicaError(p, silica_sql_sync(silicaDb(p)));
    return rc;
  }
  return stock_sqlite3BtreeCheckpoint(p, eMode, pnLog, pnCkpt);
}
#endif

/******************************* Transactions ********************************/

/* Cursors that are at an entry look for it again when they are next used. The machine pins one
** whose row no trigger may take away from under it: then nothing may be written, also if the
** cursor itself has just deleted the row that is in the way of the new one. */
static int silicaMarkCursors(Btree *p, Pgno iRoot, BtCursor *pExcept){
  BtCursor *pCur;
  for(pCur=silicaHandle(p)->pCursors; pCur; pCur=pCur->pNext){
    if( pCur==pExcept || (iRoot!=0 && pCur->pgnoRoot!=iRoot) ) continue;
    if( (pCur->curFlags & BTCF_Pinned) && pCur->eState<=CURSOR_REQUIRESEEK
     && pCur->eState!=CURSOR_INVALID ){
      return SQLITE_CONSTRAINT_PINNED;
    }
    if( pCur->eState==CURSOR_VALID || pCur->eState==CURSOR_SKIPNEXT ){
      pCur->eState = CURSOR_REQUIRESEEK;
    }
  }
  return SQLITE_OK;
}

/* Handles of open blobs end where their row is written. */
static void silicaEndBlobs(Btree *p, Pgno iRoot, i64 iRow, int isClear){
  BtCursor *pCur;
  if( p->hasIncrblobCur==0 ) return;
  p->hasIncrblobCur = 0;
  for(pCur=silicaHandle(p)->pCursors; pCur; pCur=pCur->pNext){
    if( pCur->curFlags & BTCF_Incrblob ){
      p->hasIncrblobCur = 1;
      if( pCur->pgnoRoot==iRoot && (isClear || pCur->info.nKey==iRow) ){
        pCur->eState = CURSOR_INVALID;
      }
    }
  }
}

SQLITE_PRIVATE int sqlite3BtreeBeginTrans(Btree *p, int wrflag, int *pSchemaVersion){
  SilicaDb *pDb;
  int rc = SQLITE_OK;
  silicaWordsCode = 0;
  if( !isSilica(p) ) return stock_sqlite3BtreeBeginTrans(p, wrflag, pSchemaVersion);
  rc = silicaConnect(p);
  if( rc!=SQLITE_OK ) return rc;
  pDb = silicaDb(p);
  if( p->inTrans!=TRANS_WRITE && !(p->inTrans==TRANS_READ && !wrflag) ){
    if( wrflag && sqlite3BtreeIsReadonly(p) ) return SQLITE_READONLY;
    do{
      rc = silica_sql_begin(pDb, wrflag);
    }while( rc==SQLITE_BUSY && p->inTrans==TRANS_NONE
         && sqlite3InvokeBusyHandler(&p->db->busyHandler) );
    if( rc!=SQLITE_OK ) return silicaError(p, rc);
    p->inTrans = wrflag ? TRANS_WRITE : TRANS_READ;
  }
  if( pSchemaVersion ){
    u32 version = 0;
    rc = silica_sql_get_meta(pDb, BTREE_SCHEMA_VERSION, &version);
    *pSchemaVersion = (int)version;
  }
  if( rc==SQLITE_OK && wrflag && p->db->nSavepoint>0 ){
    rc = silica_sql_open_savepoints(pDb, p->db->nSavepoint);
  }
  return silicaError(p, rc);
}

static int silicaKeepsReading(Btree *p){
  return p->db->nVdbeRead>1;
}

SQLITE_PRIVATE int sqlite3BtreeCommitPhaseOne(Btree *p, const char *zSuperJrnl){
  if( isSilica(p) ){
    int rc, keep;
    if( p->inTrans!=TRANS_WRITE ) return SQLITE_OK;
    keep = silicaKeepsReading(p);
    /* Another transaction may have the turn, if this one writes beside others. */
    do{
      rc = silica_sql_commit(silicaDb(p), silicaHandle(p)->level>=PAGER_SYNCHRONOUS_FULL, keep);
    }while( rc==SQLITE_BUSY && sqlite3InvokeBusyHandler(&p->db->busyHandler) );
    if( rc==SQLITE_OK ) p->inTrans = keep ? TRANS_READ : TRANS_NONE;
    return silicaError(p, rc);
  }
  return stock_sqlite3BtreeCommitPhaseOne(p, zSuperJrnl);
}

static void silicaEndTransaction(Btree *p){
  if( p->inTrans!=TRANS_NONE && !silicaKeepsReading(p) ){
    silica_sql_rollback(silicaDb(p), 0);
    p->inTrans = TRANS_NONE;
  }
}

SQLITE_PRIVATE int sqlite3BtreeCommitPhaseTwo(Btree *p, int bCleanup){
  if( isSilica(p) ){
    silicaEndTransaction(p);
    return SQLITE_OK;
  }
  return stock_sqlite3BtreeCommitPhaseTwo(p, bCleanup);
}

SQLITE_PRIVATE int sqlite3BtreeCommit(Btree *p){
  int rc;
  if( !isSilica(p) ) return stock_sqlite3BtreeCommit(p);
  rc = sqlite3BtreeCommitPhaseOne(p, 0);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeCommitPhaseTwo(p, 0);
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeTripAllCursors(Btree *p, int errCode, int writeOnly){
  BtCursor *pCur;
  if( p==0 ) return SQLITE_OK;
  if( !isSilica(p) ) return stock_sqlite3BtreeTripAllCursors(p, errCode, writeOnly);
  for(pCur=silicaHandle(p)->pCursors; pCur; pCur=pCur->pNext){
    if( writeOnly && (pCur->curFlags & BTCF_WriteFlag)==0 ){
      if( pCur->eState==CURSOR_VALID ) pCur->eState = CURSOR_REQUIRESEEK;
    }else{
      pCur->eState = CURSOR_FAULT;
      pCur->skipNext = errCode;
    }
  }
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeRollback(Btree *p, int tripCode, int writeOnly){
  int rc = SQLITE_OK;
  if( !isSilica(p) ) return stock_sqlite3BtreeRollback(p, tripCode, writeOnly);
  if( tripCode==SQLITE_OK ){
    tripCode = silicaMarkCursors(p, 0, 0);
    if( tripCode!=SQLITE_OK ) writeOnly = 0;
  }
  if( tripCode!=SQLITE_OK ) sqlite3BtreeTripAllCursors(p, tripCode, writeOnly);
  if( p->inTrans==TRANS_WRITE ){
    int keep = silicaKeepsReading(p);
    rc = silicaError(p, silica_sql_rollback(silicaDb(p), keep));
    p->inTrans = keep ? TRANS_READ : TRANS_NONE;
  }
  silicaEndTransaction(p);
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeBeginStmt(Btree *p, int iStatement){
  if( !isSilica(p) ) return stock_sqlite3BtreeBeginStmt(p, iStatement);
  return silicaError(p, silica_sql_open_savepoints(silicaDb(p), iStatement));
}

SQLITE_PRIVATE int sqlite3BtreeSavepoint(Btree *p, int op, int iSavepoint){
  int rc;
  if( p==0 || !isSilica(p) ) return stock_sqlite3BtreeSavepoint(p, op, iSavepoint);
  if( p->inTrans!=TRANS_WRITE ) return SQLITE_OK;
  if( op==SAVEPOINT_ROLLBACK ){
    rc = silicaMarkCursors(p, 0, 0);
    if( rc!=SQLITE_OK ) return rc;
    rc = silica_sql_roll_back_to(silicaDb(p), iSavepoint);
  }else{
    rc = silica_sql_release_savepoint(silicaDb(p), iSavepoint);
  }
  return silicaError(p, rc);
}

SQLITE_PRIVATE void sqlite3BtreeGetMeta(Btree *p, int idx, u32 *pMeta){
  if( isSilica(p) ){
    *pMeta = 0;
    if( silicaConnect(p)==SQLITE_OK ) silica_sql_get_meta(silicaDb(p), idx, pMeta);
  }else{
    stock_sqlite3BtreeGetMeta(p, idx, pMeta);
  }
}

SQLITE_PRIVATE int sqlite3BtreeUpdateMeta(Btree *p, int idx, u32 iMeta){
  if( !isSilica(p) ) return stock_sqlite3BtreeUpdateMeta(p, idx, iMeta);
  return silicaError(p, silica_sql_set_meta(silicaDb(p), idx, iMeta));
}

/*********************************** Trees ***********************************/

SQLITE_PRIVATE int sqlite3BtreeCreateTable(Btree *p, Pgno *piTable, int flags){
  if( !isSilica(p) ) return stock_sqlite3BtreeCreateTable(p, piTable, flags);
  return silicaError(p, silica_sql_create_tree(silicaDb(p), (flags&BTREE_INTKEY)!=0, piTable));
}

SQLITE_PRIVATE int sqlite3BtreeNewDb(Btree *p){
  if( isSilica(p) ){
    int rc = silicaMarkCursors(p, 0, 0);
    if( rc!=SQLITE_OK ) return rc;
    return silicaError(p, silica_sql_clear(silicaDb(p)));
  }
  return stock_sqlite3BtreeNewDb(p);
}

SQLITE_PRIVATE int sqlite3BtreeDropTable(Btree *p, int iTable, int *piMoved){
  int rc;
  if( !isSilica(p) ) return stock_sqlite3BtreeDropTable(p, iTable, piMoved);
  *piMoved = 0;
  rc = silicaMarkCursors(p, (Pgno)iTable, 0);
  if( rc!=SQLITE_OK ) return rc;
  return silicaError(p, silica_sql_drop_tree(silicaDb(p), (u32)iTable));
}

SQLITE_PRIVATE int sqlite3BtreeClearTable(Btree *p, int iTable, i64 *pnChange){
  i64 nEntry = 0;
  int rc;
  if( !isSilica(p) ) return stock_sqlite3BtreeClearTable(p, iTable, pnChange);
  rc = silicaMarkCursors(p, (Pgno)iTable, 0);
  if( rc!=SQLITE_OK ) return rc;
  silicaEndBlobs(p, (Pgno)iTable, 0, 1);
  rc = silica_sql_clear_tree(silicaDb(p), (u32)iTable, pnChange ? (int64_t*)&nEntry : 0);
  if( rc==SQLITE_OK && pnChange ) *pnChange += nEntry;
  return silicaError(p, rc);
}

SQLITE_PRIVATE int sqlite3BtreeClearTableOfCursor(BtCursor *pCur){
  if( !isSilica(pCur->pBtree) ) return stock_sqlite3BtreeClearTableOfCursor(pCur);
  return sqlite3BtreeClearTable(pCur->pBtree, pCur->pgnoRoot, 0);
}

