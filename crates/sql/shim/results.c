
/*
** Results that are kept (silica_store.h): a statement that only reads, whose result was computed
** before and would be the same now, hands that out and its program does not run. This text stands
** behind vdbeaux.c and statements.c.
**
** 1. A statement qualifies by its program: it reads nothing but the main database, through cursors,
**    which record what they read, and computes nothing but what its text, its parameters and those
**    entries decide.
** 2. The key of a result is what else decides it: the text, the values of the parameters, the
**    connection's flags, and the number of the schema that the program was compiled for.
** 3. A statement that serves a kept result counts as one that runs, as SQLite counts these. It ends
**    through sqlite3VdbeHalt(), too.
** 4. A result is kept once it is whole: when the program has come to its end. One that cannot go
**    round in a loop is driven there if it is reset behind its row.
*/

/* True for functions of SQLite's own whose result depends on nothing but their arguments. */
static int silicaIsPure(const FuncDef *pFunc){
  u32 flags = pFunc->funcFlags;
  return (flags & SQLITE_FUNC_BUILTIN) && (flags & SQLITE_FUNC_CONSTANT)
      && (flags & (SQLITE_FUNC_SLOCHNG|SQLITE_FUNC_LIKE|SQLITE_FUNC_RUNONLY))==0;
}

/* By rule 1. *pIsOneRow is 1 for a program without a loop. */
static int silicaIsCacheable(Vdbe *p, int *pIsOneRow){
  int i;
  *pIsOneRow = 1;
  if( !p->readOnly || !p->bIsReader || p->explain || p->nResColumn==0 ) return 0;
  if( DbMaskNonZero(p->btreeMask)==0 || !DbMaskTest(p->btreeMask, 0) ) return 0;
  for(i=1; i<p->db->nDb; i++){
    if( DbMaskTest(p->btreeMask, i) ) return 0;
  }
  for(i=0; i<p->nOp; i++){
    const Op *pOp = &p->aOp[i];
    switch( pOp->opcode ){
      case OP_Next: case OP_Prev: case OP_SorterNext: *pIsOneRow = 0; break;
      case OP_Init: case OP_Goto: case OP_Gosub: case OP_Return: case OP_InitCoroutine:
      case OP_EndCoroutine: case OP_Yield: case OP_BeginSubrtn: case OP_Halt: case OP_Jump:
      case OP_Once: case OP_If: case OP_IfNot: case OP_IsNull: case OP_NotNull: case OP_IsType:
      case OP_Not: case OP_And: case OP_Or: case OP_BitNot: case OP_IsTrue: case OP_ZeroOrNull:
      case OP_Eq: case OP_Ne: case OP_Lt: case OP_Le: case OP_Gt: case OP_Ge: case OP_ElseEq:
      case OP_Compare: case OP_Permutation: case OP_BitAnd: case OP_BitOr: case OP_ShiftLeft:
      case OP_ShiftRight: case OP_Add: case OP_Subtract: case OP_Multiply: case OP_Divide:
      case OP_Remainder: case OP_Concat: case OP_AddImm: case OP_MustBeInt: case OP_RealAffinity:
      case OP_Cast: case OP_CollSeq: case OP_Affinity: case OP_MakeRecord:
      case OP_Integer: case OP_Int64: case OP_Real: case OP_String8: case OP_String: case OP_Null:
      case OP_SoftNull: case OP_Blob: case OP_Variable: case OP_Move: case OP_Copy: case OP_SCopy:
      case OP_IntCopy: case OP_ResultRow: case OP_Transaction: case OP_OpenRead: case OP_ReopenIdx:
      case OP_OpenEphemeral: case OP_OpenAutoindex: case OP_OpenPseudo: case OP_SorterOpen:
      case OP_SequenceTest: case OP_Sequence: case OP_Close: case OP_ColumnsUsed: case OP_Column:
      case OP_Offset: case OP_Rowid: case OP_IdxRowid: case OP_NullRow: case OP_DeferredSeek:
      case OP_FinishSeek: case OP_SeekLT: case OP_SeekLE: case OP_SeekGE: case OP_SeekGT:
      case OP_SeekScan: case OP_SeekHit: case OP_SeekRowid: case OP_NotExists: case OP_NotFound:
      case OP_Found: case OP_NoConflict: case OP_IfNoHope: case OP_IfSizeBetween: case OP_IdxLT:
      case OP_IdxLE: case OP_IdxGT: case OP_IdxGE: case OP_Rewind: case OP_Last: case OP_IfEmpty:
      case OP_SeekEnd: case OP_Sort: case OP_SorterSort: case OP_SorterInsert: case OP_SorterData:
      case OP_SorterCompare: case OP_IdxInsert: case OP_NewRowid: case OP_Insert: case OP_RowData:
      case OP_RowCell: case OP_Count: case OP_IfPos: case OP_IfNotZero: case OP_DecrJumpZero:
      case OP_OffsetLimit: case OP_Filter: case OP_FilterAdd: case OP_Noop: case OP_Explain:
      case OP_ReleaseReg: case OP_ResetSorter: case OP_HaltIfNull: case OP_ClrSubtype:
        break;
      case OP_AggStep: case OP_AggFinal: case OP_AggValue:
        if( pOp->p4type!=P4_FUNCDEF || !silicaIsPure(pOp->p4.pFunc) ) return 0;
        break;
      case OP_Function: case OP_PureFunc:
        if( pOp->p4type!=P4_FUNCCTX || !silicaIsPure(pOp->p4.pCtx->pFunc) ) return 0;
        break;
      default: return 0;
    }
  }
  return 1;
}

static SilicaDb *silicaResultDb(sqlite3 *db){
  Btree *pMain = db->aDb[0].pBt;
  return isSilica(pMain) ? silicaDb(pMain) : 0;
}

static void silicaResetBytes(SilicaBytes *pBytes){
  if( pBytes->nAlloc>4096 ){
    sqlite3_free(pBytes->a);
    pBytes->a = 0;
    pBytes->nAlloc = 0;
  }
  pBytes->n = 0;
}

/* Room for n more bytes; NULL if there is none. */
static u8 *silicaRoom(SilicaBytes *pBytes, u32 n){
  if( pBytes->n+n>pBytes->nAlloc ){
    u32 nAlloc = MAX(2*pBytes->nAlloc, pBytes->n+n+64);
    u8 *a = sqlite3Realloc(pBytes->a, nAlloc);
    if( a==0 ) return 0;
    pBytes->a = a;
    pBytes->nAlloc = nAlloc;
  }
  pBytes->n += n;
  return &pBytes->a[pBytes->n-n];
}

static int silicaAppend(SilicaBytes *pBytes, const void *p, u32 n){
  u8 *aTo = silicaRoom(pBytes, n);
  if( aTo && n ) memcpy(aTo, p, n);
  return aTo!=0;
}

/* Appends a value: its type and its bytes, with their number and a zero byte behind texts and
** blobs. 0 for one that cannot be kept. */
static int silicaAppendValue(SilicaBytes *pBytes, const Mem *pMem){
  u8 type;
  if( pMem->flags & (MEM_Zero|MEM_Subtype) ) return 0;
  if( pMem->flags & MEM_Null ){
    type = SQLITE_NULL;
    return (pMem->flags & MEM_Cleared)==0 && silicaAppend(pBytes, &type, 1);
  }
  if( pMem->flags & (MEM_Str|MEM_Blob) ){
    u32 n = (u32)pMem->n;
    type = (pMem->flags & MEM_Str) ? SQLITE_TEXT : SQLITE_BLOB;
    /* A number that was made into text, and is both. */
    if( pMem->flags & (MEM_Int|MEM_Real|MEM_IntReal) ) return 0;
    if( type==SQLITE_TEXT && pMem->enc!=SQLITE_UTF8 ) return 0;
    return silicaAppend(pBytes, &type, 1) && silicaAppend(pBytes, &n, 4)
        && silicaAppend(pBytes, pMem->z, n) && silicaAppend(pBytes, "", 1);
  }
  if( pMem->flags & MEM_Int ){
    type = SQLITE_INTEGER;
    return silicaAppend(pBytes, &type, 1) && silicaAppend(pBytes, &pMem->u.i, 8);
  }
  if( pMem->flags & MEM_Real ){
    type = SQLITE_FLOAT;
    return silicaAppend(pBytes, &type, 1) && silicaAppend(pBytes, &pMem->u.r, 8);
  }
  return 0;
}

/* By rule 2; 0 if there is no key. */
static int silicaResultKey(SilicaStatement *pStatement){
  Vdbe *p = pStatement->pVdbe;
  SilicaBytes *pKey = &pStatement->key;
  u32 cookie = (u32)p->db->aDb[0].pSchema->schema_cookie;
  int i, nVar = pStatement->nHidden ? pStatement->nHidden : p->nVar;
  pKey->n = 0;
  if( !silicaAppend(pKey, &p->db->flags, sizeof(p->db->flags))
   || !silicaAppend(pKey, &cookie, 4)
   || !silicaAppend(pKey, pStatement->zKey, pStatement->nKey)
   || !silicaAppend(pKey, "", 1) ) return 0;
  for(i=0; i<nVar; i++){
    if( !silicaAppendValue(pKey, &p->aVar[i]) ) return 0;
  }
  return pKey->n<=1024;
}

/* The rows of a statement are no longer handed out, or no longer recorded. */
static void silicaStopResult(SilicaStatement *pStatement){
  Vdbe *p = pStatement->pVdbe;
  int i;
  if( pStatement->isServing ){
    for(i=0; i<pStatement->nRow; i++) sqlite3VdbeMemRelease(&pStatement->aRow[i]);
    pStatement->isServing = 0;
    p->pResultRow = 0;
  }
  if( pStatement->isRecording ){
    SilicaDb *pDb = silicaResultDb(p->db);
    pStatement->isRecording = 0;
    if( pDb ) silica_sql_result_end(pDb, 0, 0, 0, 0, 0);
  }
  silicaResetBytes(&pStatement->rows);
}

/* Has the next of the rows that are served in pResultRow; 0 if there is none. */
static int silicaNextRow(SilicaStatement *pStatement){
  Vdbe *p = pStatement->pVdbe;
  SilicaBytes *pRows = &pStatement->rows;
  int i;
  if( pStatement->iRead>=pRows->n ) return 0;
  for(i=0; i<pStatement->nRow; i++){
    Mem *pMem = &pStatement->aRow[i];
    const u8 *a = &pRows->a[pStatement->iRead];
    sqlite3VdbeMemRelease(pMem);
    pMem->flags = MEM_Null;
    pMem->enc = SQLITE_UTF8;
    pStatement->iRead++;
    switch( a[0] ){
      case SQLITE_INTEGER:
        memcpy(&pMem->u.i, a+1, 8);
        pMem->flags = MEM_Int;
        pStatement->iRead += 8;
        break;
      case SQLITE_FLOAT:
        memcpy(&pMem->u.r, a+1, 8);
        pMem->flags = MEM_Real;
        pStatement->iRead += 8;
        break;
      case SQLITE_TEXT: case SQLITE_BLOB: {
        u32 n;
        memcpy(&n, a+1, 4);
        pMem->z = (char*)a+5;
        pMem->n = (int)n;
        pMem->xDel = 0;
        pMem->flags = MEM_Static | (a[0]==SQLITE_TEXT ? MEM_Str|MEM_Term : MEM_Blob);
        pStatement->iRead += 4+n+1;
        break;
      }
    }
  }
  p->pResultRow = pStatement->aRow;
  return 1;
}

/* A step of a statement that serves. */
static int silicaServe(SilicaStatement *pStatement){
  Vdbe *p = pStatement->pVdbe;
  sqlite3 *db = p->db;
  if( silicaNextRow(pStatement) ){
    db->errCode = SQLITE_ROW;
    return SQLITE_ROW;
  }
  silicaStopResult(pStatement);
  p->rc = SQLITE_OK;
  sqlite3VdbeHalt(p);
  p->rc = SQLITE_OK;
  db->errCode = SQLITE_DONE;
  return SQLITE_DONE;
}

/* Looks for the result; 1 if there is one, and the statement serves it from now on. */
static int silicaFindResult(SilicaStatement *pStatement, SilicaDb *pDb){
  Vdbe *p = pStatement->pVdbe;
  sqlite3 *db = p->db;
  SilicaBytes *pRows = &pStatement->rows, *pKey = &pStatement->key;
  u32 size = 0;
  int i;
  if( !silica_sql_result_find(pDb, pKey->a, pKey->n, pRows->a, pRows->nAlloc, &size) ) return 0;
  if( size>pRows->nAlloc ){
    pRows->n = 0;
    if( silicaRoom(pRows, size)==0 ) return 0;
    if( !silica_sql_result_find(pDb, pKey->a, pKey->n, pRows->a, pRows->nAlloc, &size)
     || size>pRows->nAlloc ) return 0;
  }
  pRows->n = size;
  if( pStatement->nRow!=p->nResColumn ){
    sqlite3_free(pStatement->aRow);
    pStatement->nRow = 0;
    pStatement->aRow = sqlite3MallocZero(sizeof(Mem)*p->nResColumn);
    if( pStatement->aRow==0 ) return 0;
    pStatement->nRow = p->nResColumn;
    for(i=0; i<pStatement->nRow; i++){
      pStatement->aRow[i].db = db;
      pStatement->aRow[i].flags = MEM_Null;
    }
  }
  pStatement->iRead = 0;
  pStatement->isServing = 1;
  /* By rule 3. */
  if( db->nVdbeActive==0 ) AtomicStore(&db->u1.isInterrupted, 0);
  db->nVdbeActive++;
  db->nVdbeRead++;
  p->pc = 0;
  p->eVdbeState = VDBE_RUN_STATE;
  return 1;
}

/* Looks that decide whether looking pays, how many of them have to find something, and how often it
** is left alone then. A prepared select by key gains from one find in five on: 2.6 us either way,
** 1.4 us less for each find, 0.3 us more for each other look (docs/sql.md). */
#define SILICA_LOOKS 512
#define SILICA_FINDS_MIN (SILICA_LOOKS/5)
#define SILICA_PASSES 8192

/* True where it does not pay to look for results: hardly any was found lately. */
static int silicaPasses(SilicaStatements *pAll){
  if( pAll->nPassed>0 ){
    pAll->nPassed--;
    return 1;
  }
  if( pAll->nLooked>=SILICA_LOOKS ){
    if( pAll->nFound<SILICA_FINDS_MIN ) pAll->nPassed = SILICA_PASSES;
    pAll->nLooked = pAll->nFound = 0;
  }
  return 0;
}

/* True if a result was asked for before, and not long ago: to keep it costs more than to find it,
** which is lost on what nobody asks for again. */
static int silicaIsSeen(SilicaStatements *pAll, const SilicaBytes *pKey){
  u32 hash = silicaHash((const char*)pKey->a, (int)pKey->n);
  u32 *pSeen = &pAll->aSeen[hash%SILICA_SEEN];
  int isSeen = *pSeen==hash;
  *pSeen = hash;
  return isSeen;
}

/* A statement is about to run: it serves a result that is kept (1), or its own may be (0). */
static int silicaBeginResult(SilicaStatement *pStatement){
  Vdbe *p = pStatement->pVdbe;
  sqlite3 *db = p->db;
  SilicaStatements *pAll;
  SilicaDb *pDb;
  if( !pStatement->isCacheable || p->expired ) return 0;
  /* Within a transaction what is read first decides the moment of all that is read. */
  if( !db->autoCommit || db->nVdbeWrite || (db->mTrace && db->trace.xV2) || db->xProgress ) return 0;
  pAll = silicaStatements(db);
  if( pAll==0 || silicaPasses(pAll) ) return 0;
  pDb = silicaResultDb(db);
  if( pDb==0 || silica_sql_result_bytes_max(pDb)==0 || !silicaResultKey(pStatement) ) return 0;
  pAll->nLooked++;
  if( silicaFindResult(pStatement, pDb) ){
    pAll->nFound++;
    pAll->nServed++;
    return 1;
  }
  pAll->nComputed++;
  pStatement->rows.n = 0;
  if( silicaIsSeen(pAll, &pStatement->key) ){
    pStatement->isRecording = silica_sql_result_begin(pDb);
  }
  pStatement->nRead = 0;
  return 0;
}

/* A step of the program came to rc: its row is recorded, or its result kept. */
static void silicaRecordStep(SilicaStatement *pStatement, int rc){
  Vdbe *p = pStatement->pVdbe;
  SilicaDb *pDb = silicaResultDb(p->db);
  SilicaBytes *pRows = &pStatement->rows;
  int i, keeps = pDb!=0;
  if( rc==SQLITE_ROW ){
    for(i=0; keeps && i<p->nResColumn; i++){
      keeps = silicaAppendValue(pRows, &p->pResultRow[i]);
    }
    if( keeps && pRows->n+pStatement->key.n<silica_sql_result_bytes_max(pDb)/2 ){
      pStatement->nRead++;
      return;
    }
  }else if( rc==SQLITE_DONE && keeps ){
    pStatement->isRecording = 0;
    silica_sql_result_end(pDb, pStatement->key.a, pStatement->key.n, pRows->a, pRows->n, 1);
  }
  silicaStopResult(pStatement);
}

SQLITE_PRIVATE int sqlite3VdbeReset(Vdbe *p){
  SilicaStatement *pStatement = silicaStatementOf(p);
  if( pStatement && (pStatement->isServing || pStatement->isRecording) ){
    /* By rule 4. */
    if( pStatement->isRecording && pStatement->isOneRow && pStatement->nRead==1
     && p->eVdbeState==VDBE_RUN_STATE ){
      int rc;
      p->db->nVdbeExec++;
      rc = sqlite3VdbeExec(p);
      p->db->nVdbeExec--;
      if( rc==SQLITE_DONE ) silicaRecordStep(pStatement, rc);
    }
    silicaStopResult(pStatement);
  }
  return stock_sqlite3VdbeReset(p);
}
