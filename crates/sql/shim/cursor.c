/********************************** Cursors **********************************/

#define SILICA_OWN_COLLATION "a Silica database has no index by the application's own collation " \
                             "%s; order by it in queries instead"

/* True for the collations that a store can order by. */
static int silicaOrdersBy(const char *zColl){
  return sqlite3StrICmp(zColl, "BINARY")==0 || sqlite3StrICmp(zColl, "NOCASE")==0
      || sqlite3StrICmp(zColl, "RTRIM")==0;
}

/* The columns of an index as silica_store.h has them; SQLITE_ERROR for a collation of the user's,
** by which a store cannot order. */
static int silicaColumns(KeyInfo *pKeyInfo, SilicaColumn *aColumn){
  int i;
  for(i=0; i<pKeyInfo->nKeyField; i++){
    CollSeq *pColl = pKeyInfo->aColl[i];
    u8 flags = pKeyInfo->aSortFlags ? pKeyInfo->aSortFlags[i] : 0;
    aColumn[i].flags = (flags & KEYINFO_ORDER_DESC ? SILICA_DESCENDING : 0)
                     | (flags & KEYINFO_ORDER_BIGNULL ? SILICA_NULLS_LAST : 0);
    if( pColl==0 || sqlite3StrICmp(pColl->zName, "BINARY")==0 ){
      aColumn[i].collation = SILICA_BINARY;
    }else if( sqlite3StrICmp(pColl->zName, "NOCASE")==0 ){
      aColumn[i].collation = SILICA_NOCASE;
    }else if( sqlite3StrICmp(pColl->zName, "RTRIM")==0 ){
      aColumn[i].collation = SILICA_RTRIM;
    }else{
      char *zWords = sqlite3_mprintf(SILICA_OWN_COLLATION, pColl->zName);
      silicaSays(SQLITE_ERROR, zWords);
      sqlite3_free(zWords);
      return SQLITE_ERROR;
    }
  }
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeCursor(
  Btree *p, Pgno iTable, int wrFlag, struct KeyInfo *pKeyInfo, BtCursor *pCur
){
  SilicaCursor *pStoreCursor = 0;
  int rc = SQLITE_OK;
  if( !isSilica(p) ) return stock_sqlite3BtreeCursor(p, iTable, wrFlag, pKeyInfo, pCur);
  if( pKeyInfo ){
    SilicaColumn aStack[16];
    SilicaColumn *aColumn = aStack;
    if( pKeyInfo->nKeyField>ArraySize(aStack) ){
      aColumn = sqlite3Malloc(sizeof(SilicaColumn)*pKeyInfo->nKeyField);
      if( aColumn==0 ) return SQLITE_NOMEM_BKPT;
    }
    rc = silicaColumns(pKeyInfo, aColumn);
    if( rc==SQLITE_OK ){
      rc = silicaError(p, silica_sql_cursor_open(silicaDb(p), iTable, aColumn,
                                                 pKeyInfo->nKeyField, &pStoreCursor));
    }
    if( aColumn!=aStack ) sqlite3_free(aColumn);
  }else{
    rc = silicaError(p, silica_sql_cursor_open(silicaDb(p), iTable, 0, 0, &pStoreCursor));
  }
  if( rc!=SQLITE_OK ) return rc;
  pCur->pgnoRoot = iTable;
  pCur->iPage = -1;
  pCur->ix = 0;
  pCur->info.nSize = 0;
  pCur->pKeyInfo = pKeyInfo;
  pCur->curIntKey = pKeyInfo==0;
  pCur->pBtree = p;
  pCur->pBt = p->pBt;
  pCur->curFlags = wrFlag ? BTCF_WriteFlag : 0;
  pCur->eState = CURSOR_INVALID;
  pCur->pPage = (MemPage*)pStoreCursor;
  pCur->pNext = silicaHandle(p)->pCursors;
  silicaHandle(p)->pCursors = pCur;
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeCloseCursor(BtCursor *pCur){
  Btree *p = pCur->pBtree;
  BtCursor **pp;
  if( p==0 || !isSilica(p) ) return stock_sqlite3BtreeCloseCursor(pCur);
  for(pp=&silicaHandle(p)->pCursors; *pp; pp=&(*pp)->pNext){
    if( *pp==pCur ){
      *pp = pCur->pNext;
      break;
    }
  }
  silica_sql_cursor_close(silicaCursor(pCur));
  pCur->pPage = 0;
  pCur->pBtree = 0;
  return SQLITE_OK;
}

SQLITE_PRIVATE void sqlite3BtreeClearCursor(BtCursor *pCur){
  if( pCur->pBtree && isSilica(pCur->pBtree) ) pCur->eState = CURSOR_INVALID;
  else stock_sqlite3BtreeClearCursor(pCur);
}

#define SILICA_FAULT(pCur) if( (pCur)->eState==CURSOR_FAULT ) return (pCur)->skipNext

SQLITE_PRIVATE int sqlite3BtreeCursorRestore(BtCursor *pCur, int *pDifferentRow){
  int rc, isOther = 0;
  if( !isSilica(pCur->pBtree) ) return stock_sqlite3BtreeCursorRestore(pCur, pDifferentRow);
  SILICA_FAULT(pCur);
  if( pCur->eState!=CURSOR_REQUIRESEEK ){
    *pDifferentRow = pCur->eState!=CURSOR_VALID;
    return SQLITE_OK;
  }
  pCur->info.nSize = 0;
  rc = silica_sql_cursor_restore(silicaCursor(pCur), &isOther);
  *pDifferentRow = rc!=SQLITE_OK || isOther;
  if( rc==SQLITE_OK ){
    pCur->eState = CURSOR_VALID;
    pCur->ix = isOther ? IS_BETWEEN : 0;
    /* SQLite leaves the place where it is as long as the row is missing. */
    if( isOther ) pCur->eState = CURSOR_REQUIRESEEK;
  }
  return silicaError(pCur->pBtree, rc);
}

static int silicaEnd(BtCursor *pCur, int rc, int isEmpty){
  pCur->ix = 0;
  pCur->info.nSize = 0;
  pCur->eState = rc==SQLITE_OK && !isEmpty ? CURSOR_VALID : CURSOR_INVALID;
  return silicaError(pCur->pBtree, rc);
}

/* Keeps the entry that a move has come to in the cursor's `info`, whose nSize is 1 then, so that
** nobody asks for it through the seam. */
static void silicaNoteEntry(BtCursor *pCur, const SilicaEntry *pEntry){
  if( pEntry->record && pCur->eState==CURSOR_VALID ){
    pCur->info.nKey = pEntry->rowid;
    pCur->info.pPayload = (u8*)pEntry->record;
    pCur->info.nPayload = pEntry->size;
    pCur->info.nSize = 1;
  }
}

#define silicaHasEntry(pCur) ((pCur)->info.nSize!=0 && (pCur)->eState==CURSOR_VALID)

/* What the machine sees of a record that cannot be read: a header of two bytes, of which none is at
** hand, so that it asks sqlite3BtreePayload() for them, which fails. */
static const u8 silicaUnread[] = {2, 0};

SQLITE_PRIVATE int sqlite3BtreeFirst(BtCursor *pCur, int *pRes){
  SilicaEntry entry;
  int rc;
  if( !isSilica(pCur->pBtree) ) return stock_sqlite3BtreeFirst(pCur, pRes);
  SILICA_FAULT(pCur);
  *pRes = 1;
  entry.record = 0;
  rc = silica_sql_cursor_first(silicaCursor(pCur), pRes, &entry);
  rc = silicaEnd(pCur, rc, *pRes);
  silicaNoteEntry(pCur, &entry);
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeIsEmpty(BtCursor *pCur, int *pRes){
  if( !isSilica(pCur->pBtree) ) return stock_sqlite3BtreeIsEmpty(pCur, pRes);
  if( pCur->eState==CURSOR_VALID && pCur->ix!=IS_BETWEEN ){
    *pRes = 0;
    return SQLITE_OK;
  }
  return sqlite3BtreeFirst(pCur, pRes);
}

SQLITE_PRIVATE int sqlite3BtreeLast(BtCursor *pCur, int *pRes){
  SilicaEntry entry;
  int rc;
  if( !isSilica(pCur->pBtree) ) return stock_sqlite3BtreeLast(pCur, pRes);
  SILICA_FAULT(pCur);
  *pRes = 1;
  /* Who goes to the end with a cursor that writes looks for a new rowid, if nothing has cursors run
  ** backwards. */
  if( pCur->pKeyInfo==0 && (pCur->curFlags & BTCF_WriteFlag)!=0
   && (pCur->pBtree->db->flags & SQLITE_ReverseOrder)==0 ){
    int64_t rowid = 0;
    int isGiven = 0;
    rc = silica_sql_cursor_new_rowid(silicaCursor(pCur), &rowid, &isGiven);
    if( rc!=SQLITE_OK ) return silicaEnd(pCur, rc, 1);
    if( isGiven ){
      *pRes = 0;
      silicaEnd(pCur, SQLITE_OK, 0);
      pCur->info.nKey = rowid-1;
      pCur->info.pPayload = (u8*)silicaUnread;
      pCur->info.nPayload = sizeof(silicaUnread);
      pCur->info.nSize = 1;
      return SQLITE_OK;
    }
  }
  entry.record = 0;
  rc = silica_sql_cursor_last(silicaCursor(pCur), pRes, &entry);
  rc = silicaEnd(pCur, rc, *pRes);
  silicaNoteEntry(pCur, &entry);
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeNext(BtCursor *pCur, int flags){
  SilicaEntry entry;
  SilicaCursor *pStore;
  int rc;
  if( !isSilica(pCur->pBtree) ) return stock_sqlite3BtreeNext(pCur, flags);
  pStore = silicaCursor(pCur);
  /* An entry that came with an earlier one, unless the tree was written since. */
  if( pStore->at+1<pStore->count && silicaHasEntry(pCur) ){
    const SilicaEntry *pEntry = &pStore->entries[++pStore->at];
    pCur->info.nKey = pEntry->rowid;
    pCur->info.pPayload = (u8*)pEntry->record;
    pCur->info.nPayload = pEntry->size;
    return SQLITE_OK;
  }
  SILICA_FAULT(pCur);
  if( pCur->eState==CURSOR_INVALID ) return SQLITE_DONE;
  entry.record = 0;
  rc = silicaEnd(pCur, silica_sql_cursor_next(silicaCursor(pCur), &entry), 0);
  silicaNoteEntry(pCur, &entry);
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreePrevious(BtCursor *pCur, int flags){
  SilicaEntry entry;
  SilicaCursor *pStore;
  int rc;
  if( !isSilica(pCur->pBtree) ) return stock_sqlite3BtreePrevious(pCur, flags);
  pStore = silicaCursor(pCur);
  if( pStore->at+1<pStore->count_back && silicaHasEntry(pCur) ){
    const SilicaEntry *pEntry = &pStore->entries[++pStore->at];
    pCur->info.nKey = pEntry->rowid;
    pCur->info.pPayload = (u8*)pEntry->record;
    pCur->info.nPayload = pEntry->size;
    return SQLITE_OK;
  }
  SILICA_FAULT(pCur);
  if( pCur->eState==CURSOR_INVALID ) return SQLITE_DONE;
  entry.record = 0;
  rc = silicaEnd(pCur, silica_sql_cursor_previous(silicaCursor(pCur), &entry), 0);
  silicaNoteEntry(pCur, &entry);
  return rc;
}

/* A read has failed. Whoever uses the cursor next gets the code: the machine asks whether there is
** an entry, and for its size and bytes, by functions that cannot fail. */
static int silicaFail(BtCursor *pCur){
  pCur->eState = CURSOR_FAULT;
  pCur->skipNext = silica_sql_code(silicaDb(pCur->pBtree));
  return silicaError(pCur->pBtree, pCur->skipNext);
}

/* Sees to it that a cursor that missed is at the entry before, if there is one. */
static int silicaSettle(BtCursor *pCur){
  SILICA_FAULT(pCur);
  if( pCur->eState==CURSOR_VALID && pCur->ix==IS_BETWEEN ){
    int isThere = silica_sql_cursor_is_there(silicaCursor(pCur));
    if( isThere<0 ) return silicaFail(pCur);
    pCur->ix = 0;
    if( !isThere ) pCur->eState = CURSOR_INVALID;
  }
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeEof(BtCursor *pCur){
  if( !isSilica(pCur->pBtree) ) return stock_sqlite3BtreeEof(pCur);
  /* A cursor at fault is not at the end: the next call through it fails. */
  if( silicaSettle(pCur)!=SQLITE_OK ) return 0;
  return CURSOR_VALID!=pCur->eState;
}

SQLITE_PRIVATE int sqlite3BtreeTableMoveto(BtCursor *pCur, i64 intKey, int biasRight, int *pRes){
  SilicaEntry entry;
  int rc;
  if( !isSilica(pCur->pBtree) ) return stock_sqlite3BtreeTableMoveto(pCur, intKey, biasRight, pRes);
  SILICA_FAULT(pCur);
  *pRes = -1;
  entry.record = 0;
  rc = silica_sql_cursor_seek_row(silicaCursor(pCur), intKey, pRes, &entry);
  silicaEnd(pCur, rc, 0);
  /* The machine looks at this first, and takes anything else for a row that is not there. */
  if( rc!=SQLITE_OK ) *pRes = 0;
  pCur->info.nKey = intKey;
  if( *pRes<0 ) pCur->ix = IS_BETWEEN;
  else silicaNoteEntry(pCur, &entry);
  return rc;
}

/* The values of an index key for silica_store.h. Text that is not UTF-8 is changed where its
** collation reads UTF-8; compared by its bytes it stays as it is. */
static int silicaFields(KeyInfo *pKeyInfo, Mem *aMem, int nMem, SilicaField *aField){
  int i;
  for(i=0; i<nMem; i++){
    Mem *pMem = &aMem[i];
    SilicaField *pField = &aField[i];
    pField->size = 0;
    if( pMem->flags & MEM_Null ){
      pField->type = SILICA_NULL;
    }else if( pMem->flags & (MEM_Int|MEM_IntReal) ){
      pField->type = SILICA_INTEGER;
      pField->value.integer = pMem->u.i;
    }else if( pMem->flags & MEM_Real ){
      pField->type = SILICA_REAL;
      pField->value.real = pMem->u.r;
    }else{
      CollSeq *pColl = pKeyInfo->aColl[i];
      if( (pMem->flags & MEM_Str) && pMem->enc!=SQLITE_UTF8 && pColl && pColl->enc==SQLITE_UTF8
       && sqlite3StrICmp(pColl->zName, "BINARY")!=0 ){
        int rc = sqlite3VdbeChangeEncoding(pMem, SQLITE_UTF8);
        if( rc!=SQLITE_OK ) return rc;
      }
      if( (pMem->flags & MEM_Zero) && sqlite3VdbeMemExpandBlob(pMem) ) return SQLITE_NOMEM_BKPT;
      pField->type = pMem->flags & MEM_Str ? SILICA_TEXT : SILICA_BLOB;
      pField->size = (u32)pMem->n;
      pField->value.bytes = (const u8*)pMem->z;
    }
  }
  return SQLITE_OK;
}

#define SILICA_FIELDS 16

/* Calls back with the fields of a key: aMem has them, or else they are in a record. */
typedef struct SilicaKey SilicaKey;
struct SilicaKey {
  SilicaField aStack[SILICA_FIELDS];
  SilicaField *aField;
  int nField;
};

static int silicaKeyInit(SilicaKey *pKey, KeyInfo *pKeyInfo, Mem *aMem, int nMem){
  pKey->nField = MIN(nMem, pKeyInfo->nKeyField);
  pKey->aField = pKey->aStack;
  if( pKey->nField>SILICA_FIELDS ){
    pKey->aField = sqlite3Malloc(sizeof(SilicaField)*pKey->nField);
    if( pKey->aField==0 ) return SQLITE_NOMEM_BKPT;
  }
  return silicaFields(pKeyInfo, aMem, pKey->nField, pKey->aField);
}

static void silicaKeyClear(SilicaKey *pKey){
  if( pKey->aField!=pKey->aStack ) sqlite3_free(pKey->aField);
}

SQLITE_PRIVATE int sqlite3BtreeIndexMoveto(BtCursor *pCur, UnpackedRecord *pIdxKey, int *pRes){
  SilicaEntry entry;
  SilicaKey key;
  int rc, isDone = 0;
  if( !isSilica(pCur->pBtree) ) return stock_sqlite3BtreeIndexMoveto(pCur, pIdxKey, pRes);
  SILICA_FAULT(pCur);
  *pRes = -1;
  entry.record = 0;
  rc = silicaKeyInit(&key, pCur->pKeyInfo, pIdxKey->aMem, pIdxKey->nField);
  if( rc==SQLITE_OK && pIdxKey->default_rc!=0 && (pCur->hints & BTREE_SEEK_EQ)!=0 ){
    /* The machine goes on only where an entry is equal, and compares it no more. */
    rc = silica_sql_cursor_seek_key(silicaCursor(pCur), key.aField, key.nField, 0, pRes, &entry);
    pIdxKey->eqSeen = rc==SQLITE_OK && *pRes==0;
    /* At the first of them: where the last is wanted, or none is equal, it is looked for. */
    isDone = pIdxKey->default_rc>0 && *pRes==0;
  }
  if( rc==SQLITE_OK && !isDone ){
    rc = silica_sql_cursor_seek_key(silicaCursor(pCur), key.aField, key.nField,
                                    pIdxKey->default_rc, pRes, &entry);
  }
  silicaKeyClear(&key);
  silicaEnd(pCur, rc, 0);
  if( rc!=SQLITE_OK ) *pRes = 0;
  if( *pRes<0 ) pCur->ix = IS_BETWEEN;
  else silicaNoteEntry(pCur, &entry);
  return rc;
}

SQLITE_PRIVATE i64 sqlite3BtreeIntegerKey(BtCursor *pCur){
  if( !isSilica(pCur->pBtree) ) return stock_sqlite3BtreeIntegerKey(pCur);
  if( silicaHasEntry(pCur) ) return pCur->info.nKey;
  silicaSettle(pCur);
  return silica_sql_cursor_rowid(silicaCursor(pCur));
}

SQLITE_PRIVATE i64 sqlite3BtreeOffset(BtCursor *pCur){
  if( !isSilica(pCur->pBtree) ) return stock_sqlite3BtreeOffset(pCur);
#ifdef SQLITE_DEBUG
  /* With less than whole records at hand the machine keeps long columns by what this says. */
  return sqlite3BtreeIntegerKey(pCur);
#else
  return 0;
#endif
}

/* The record here; NULL on an error, which the cursor has then. */
static const u8 *silicaRecord(BtCursor *pCur, u32 *pn){
  const u8 *pRecord;
  *pn = 0;
  if( silicaSettle(pCur)!=SQLITE_OK ) return 0;
  pRecord = silica_sql_cursor_record(silicaCursor(pCur), pn);
  if( pRecord==0 ) silicaFail(pCur);
  return pRecord;
}

SQLITE_PRIVATE const void *sqlite3BtreePayloadFetch(BtCursor *pCur, u32 *pAmt){
  const u8 *pRecord;
  if( !isSilica(pCur->pBtree) ) return stock_sqlite3BtreePayloadFetch(pCur, pAmt);
  if( silicaHasEntry(pCur) ){
    *pAmt = pCur->info.nPayload;
    pRecord = pCur->info.pPayload;
  }else{
    pRecord = silicaRecord(pCur, pAmt);
  }
#ifdef SQLITE_DEBUG
  /* No page of SQLite's has more, which the machine asserts and does not need. */
  if( *pAmt>65536 ) *pAmt = 65536;
#endif
  return pRecord ? pRecord : silicaUnread;
}

SQLITE_PRIVATE u32 sqlite3BtreePayloadSize(BtCursor *pCur){
  u32 n = 0;
  if( !isSilica(pCur->pBtree) ) return stock_sqlite3BtreePayloadSize(pCur);
  if( silicaHasEntry(pCur) ) return pCur->info.nPayload;
  return silicaRecord(pCur, &n) ? n : sizeof(silicaUnread);
}

SQLITE_PRIVATE sqlite3_int64 sqlite3BtreeMaxRecordSize(BtCursor *pCur){
  if( !isSilica(pCur->pBtree) ) return stock_sqlite3BtreeMaxRecordSize(pCur);
  return 0x7fffffff;
}

SQLITE_PRIVATE int sqlite3BtreePayload(BtCursor *pCur, u32 offset, u32 amt, void *pBuf){
  const u8 *pRecord;
  u32 n = 0;
  if( !isSilica(pCur->pBtree) ) return stock_sqlite3BtreePayload(pCur, offset, amt, pBuf);
  if( silicaHasEntry(pCur) ){
    n = pCur->info.nPayload;
    pRecord = pCur->info.pPayload;
  }else{
    pRecord = silicaRecord(pCur, &n);
    if( pRecord==0 ) return pCur->skipNext;
  }
  if( (u64)offset+amt>n ) return SQLITE_CORRUPT_BKPT;
  memcpy(pBuf, pRecord+offset, amt);
  return SQLITE_OK;
}

#ifndef SQLITE_OMIT_INCRBLOB
SQLITE_PRIVATE int sqlite3BtreePayloadChecked(BtCursor *pCur, u32 offset, u32 amt, void *pBuf){
  if( !isSilica(pCur->pBtree) ) return stock_sqlite3BtreePayloadChecked(pCur, offset, amt, pBuf);
  if( pCur->eState==CURSOR_REQUIRESEEK ){
    int isOther, rc = sqlite3BtreeCursorRestore(pCur, &isOther);
    if( rc!=SQLITE_OK ) return rc;
    if( isOther ) return SQLITE_ABORT;
  }
  if( pCur->eState!=CURSOR_VALID ) return SQLITE_ABORT;
  return sqlite3BtreePayload(pCur, offset, amt, pBuf);
}

SQLITE_PRIVATE int sqlite3BtreePutData(BtCursor *pCur, u32 offset, u32 amt, void *z){
  Btree *p = pCur->pBtree;
  const u8 *pRecord;
  u8 *pNew;
  u32 n = 0;
  int rc;
  if( !isSilica(p) ) return stock_sqlite3BtreePutData(pCur, offset, amt, z);
  if( pCur->eState==CURSOR_REQUIRESEEK ){
    int isOther;
    rc = sqlite3BtreeCursorRestore(pCur, &isOther);
    if( rc!=SQLITE_OK ) return rc;
    if( isOther ) return SQLITE_ABORT;
  }
  if( pCur->eState!=CURSOR_VALID ) return SQLITE_ABORT;
  if( (pCur->curFlags & BTCF_WriteFlag)==0 ) return SQLITE_READONLY;
  pRecord = silicaRecord(pCur, &n);
  if( pRecord==0 ) return pCur->skipNext;
  if( (u64)offset+amt>n ) return SQLITE_CORRUPT_BKPT;
  pNew = sqlite3Malloc(n);
  if( pNew==0 ) return SQLITE_NOMEM_BKPT;
  memcpy(pNew, pRecord, n);
  memcpy(pNew+offset, z, amt);
  pCur->info.nSize = 0;
  rc = silicaMarkCursors(p, pCur->pgnoRoot, pCur);
  if( rc==SQLITE_OK ) rc = silica_sql_cursor_put_row(silicaCursor(pCur),
                                 silica_sql_cursor_rowid(silicaCursor(pCur)), pNew, n, 0);
  sqlite3_free(pNew);
  return silicaError(p, rc);
}
#endif

