
/*
** Prepared statements that are kept. A program that prepares its statements anew each time pays for
** SQLite's parser and code generator twice what the statement itself costs. So a statement that is
** finalized stays with its connection, and preparing the same text again takes it. Texts that differ
** in their literals only are one text: prepare.c has parameters in their place. This text stands
** behind vdbeaux.c, through which every end of a statement goes.
**
** 1. A statement is kept idle, rewound and without bindings, and out of its connection's list: it is
**    as if it had been deleted.
** 2. It is taken again only if everything is as it was that SQLite's compiler looks at: the schemas,
**    flags and limits of the connection. silicaState() is a hash of these. Whatever SQLite expires
**    statements for counts up the handle's `expired`, which is part of it.
** 3. Parameters that stand for literals are hidden: the statement's nVar is 0 but while it runs.
**    Their values own no memory but the SilicaStatement's.
** 4. The statement's zSql is the text as the program has it, so that traces, logs and messages show
**    that, and a statement whose schema has changed is compiled from it, without hidden parameters.
*/

/* In Vdbe.prepFlags, where SQLite has no flag: pParse, which SQLite needs no more, is a
** SilicaStatement. */
#define SILICA_PREPARED 0x40

#define SILICA_KEPT_MAX 64     /* of a connection */
#define SILICA_KEPT_CHAINS 64  /* a power of two */
#define SILICA_SEEN 2048       /* results that were asked for, by their hashes */

typedef struct SilicaBytes SilicaBytes;
struct SilicaBytes {
  u8 *a;
  u32 n, nAlloc;
};

typedef struct SilicaStatement SilicaStatement;
struct SilicaStatement {
  Vdbe *pVdbe;
  SilicaStatement *pChain;                /* next with such a hash */
  SilicaStatement *pNewer, *pOlder;       /* in the order in which they were kept */
  u64 state;                              /* by rule 2, when it was compiled */
  u32 hash;
  int nKey;
  int nHidden;                            /* parameters that stand for literals */
  u8 prepFlags;
  u8 isKeepable;
  u8 isCacheable;                         /* see results.c, as of what follows */
  u8 isOneRow;
  u8 isServing;
  u8 isRecording;
  int nRead;                              /* rows that were recorded */
  u32 iRead;                              /* bytes of `rows` that were served */
  SilicaBytes key, rows;
  int nRow;                               /* of aRow, which is pResultRow while it serves */
  Mem *aRow;
  int nBytes;                             /* at aBytes */
  u8 *aBytes;                             /* values of hidden parameters */
  char zKey[1];                           /* what it was compiled from */
};

typedef struct SilicaStatements SilicaStatements;
struct SilicaStatements {
  int nKept;
  u64 nCompiled, nTaken;                  /* statements that were prepared */
  u64 nComputed, nServed;                 /* results */
  /* See results.c. */
  u32 nLooked, nFound, nPassed;
  u32 aSeen[SILICA_SEEN];
  SilicaStatement *pNewest, *pOldest;
  SilicaStatement *aChain[SILICA_KEPT_CHAINS];
  /* Hashes of texts with parameters in place of literals for which a plan without the literals may
  ** be worse, as where an index is partial. */
  u32 aUnfit[16];
};

/* The statements of a connection whose main database is ours; NULL for others. */
static SilicaStatements *silicaStatements(sqlite3 *db){
  Btree *pMain = db->aDb[0].pBt;
  SilicaHandle *pHandle;
  if( pMain==0 || !isSilica(pMain) ) return 0;
  pHandle = silicaHandle(pMain);
  if( pHandle->pStatements==0 && !pHandle->keepsNoStatements ){
    pHandle->pStatements = sqlite3MallocZero(sizeof(SilicaStatements));
  }
  return pHandle->pStatements;
}

static u64 silicaMix(u64 hash, u64 value){
  return (hash ^ value)*0x9e3779b97f4a7c15ull + (hash>>29);
}

static u32 silicaHash(const char *z, int n){
  u64 hash = n;
  for(; n>=8; z+=8, n-=8){
    u64 word;
    memcpy(&word, z, 8);
    hash = silicaMix(hash, word);
  }
  for(; n>0; z++, n--) hash = silicaMix(hash, (u8)z[0]);
  return (u32)(hash>>32) ^ (u32)hash;
}

/* See rule 2. */
static u64 silicaState(sqlite3 *db){
  u64 hash = silicaHandle(db->aDb[0].pBt)->expired;
  int i;
  hash = silicaMix(hash, db->flags);
  hash = silicaMix(hash, ((u64)db->dbOptFlags<<32) | (u32)db->nDb);
  for(i=0; i<db->nDb; i++){
    Schema *pSchema = db->aDb[i].pSchema;
    hash = silicaMix(hash, (u64)(size_t)pSchema);
    if( pSchema ){
      hash = silicaMix(hash, ((u64)(u32)pSchema->schema_cookie<<32) | (u32)pSchema->iGeneration);
    }
  }
  for(i=0; i<SQLITE_N_LIMIT; i++) hash = silicaMix(hash, (u32)db->aLimit[i]);
  return hash;
}

static SilicaStatement *silicaStatementOf(Vdbe *p){
  return (p->prepFlags & SILICA_PREPARED) ? (SilicaStatement*)p->pParse : 0;
}

static void silicaFreeStatement(SilicaStatement *pStatement){
  sqlite3_free(pStatement->aBytes);
  sqlite3_free(pStatement->key.a);
  sqlite3_free(pStatement->rows.a);
  sqlite3_free(pStatement->aRow);
  sqlite3_free(pStatement);
}

static void silicaUnkeep(SilicaStatements *pAll, SilicaStatement *pStatement){
  SilicaStatement **pp = &pAll->aChain[pStatement->hash & (SILICA_KEPT_CHAINS-1)];
  while( *pp!=pStatement ) pp = &(*pp)->pChain;
  *pp = pStatement->pChain;
  if( pStatement->pNewer ) pStatement->pNewer->pOlder = pStatement->pOlder;
  else pAll->pNewest = pStatement->pOlder;
  if( pStatement->pOlder ) pStatement->pOlder->pNewer = pStatement->pNewer;
  else pAll->pOldest = pStatement->pNewer;
  pStatement->pChain = pStatement->pNewer = pStatement->pOlder = 0;
  pAll->nKept--;
}

/* Has the statement in the list of its connection again. */
static void silicaLink(Vdbe *p){
  sqlite3 *db = p->db;
  p->pVNext = db->pVdbe;
  p->ppVPrev = &db->pVdbe;
  if( p->pVNext ) p->pVNext->ppVPrev = &p->pVNext;
  db->pVdbe = p;
}

/* Deletes one that is kept. */
static void silicaDrop(SilicaStatements *pAll, SilicaStatement *pStatement){
  Vdbe *p = pStatement->pVdbe;
  silicaUnkeep(pAll, pStatement);
  silicaLink(p);
  p->prepFlags &= ~SILICA_PREPARED;
  stock_sqlite3VdbeDelete(p);
  silicaFreeStatement(pStatement);
}

/* Deletes all that are kept. */
static void silicaDropAll(SilicaStatements *pAll){
  while( pAll->pOldest ) silicaDrop(pAll, pAll->pOldest);
}

/* Takes one that is kept, compiled from `zKey` with so many literals hidden, which may have the
** same key as one with the program's own parameters; NULL if there is none. */
static SilicaStatement *silicaTake(
  SilicaStatements *pAll, const char *zKey, int nKey, int nHidden, u32 hash, u8 prepFlags, u64 state
){
  SilicaStatement *pNext, *p = pAll->aChain[hash & (SILICA_KEPT_CHAINS-1)];
  for(; p; p=pNext){
    pNext = p->pChain;
    if( p->hash!=hash || p->nKey!=nKey || p->prepFlags!=prepFlags ) continue;
    if( p->nHidden!=nHidden || memcmp(p->zKey, zKey, nKey)!=0 ) continue;
    if( p->state!=state ){
      silicaDrop(pAll, p);
      continue;
    }
    silicaUnkeep(pAll, p);
    silicaLink(p->pVdbe);
    return p;
  }
  return 0;
}

/* Keeps a statement that is about to be deleted; 0 if it has to be deleted. */
static int silicaKeep(SilicaStatement *pStatement){
  Vdbe *p = pStatement->pVdbe;
  sqlite3 *db = p->db;
  int rc = p->rc & 0xff;
  SilicaStatements *pAll;
  int i;
  if( !pStatement->isKeepable || p->expired || p->explain || db->mallocFailed ) return 0;
  if( db->eOpenState!=SQLITE_STATE_OPEN ) return 0;
  if( rc!=SQLITE_OK && rc!=SQLITE_DONE && rc!=SQLITE_CONSTRAINT ) return 0;
  if( p->eVdbeState!=VDBE_READY_STATE && p->eVdbeState!=VDBE_HALT_STATE ) return 0;
  pAll = silicaStatements(db);
  if( pAll==0 ) return 0;
  *p->ppVPrev = p->pVNext;
  if( p->pVNext ) p->pVNext->ppVPrev = p->ppVPrev;
  sqlite3VdbeRewind(p);
  for(i=0; i<p->nVar; i++){
    sqlite3VdbeMemRelease(&p->aVar[i]);
    p->aVar[i].flags = MEM_Null;
  }
  memset(p->aCounter, 0, sizeof(p->aCounter));
  pStatement->pChain = pAll->aChain[pStatement->hash & (SILICA_KEPT_CHAINS-1)];
  pAll->aChain[pStatement->hash & (SILICA_KEPT_CHAINS-1)] = pStatement;
  pStatement->pOlder = pAll->pNewest;
  if( pAll->pNewest ) pAll->pNewest->pNewer = pStatement;
  else pAll->pOldest = pStatement;
  pAll->pNewest = pStatement;
  if( ++pAll->nKept>SILICA_KEPT_MAX ) silicaDrop(pAll, pAll->pOldest);
  return 1;
}

SQLITE_PRIVATE void sqlite3VdbeDelete(Vdbe *p){
  SilicaStatement *pStatement = silicaStatementOf(p);
  /* With pnBytesFreed SQLite measures, and deletes nothing. */
  if( pStatement && p->db->pnBytesFreed==0 ){
    if( silicaKeep(pStatement) ) return;
    silicaFreeStatement(pStatement);
  }
  stock_sqlite3VdbeDelete(p);
}

SQLITE_PRIVATE void sqlite3ExpirePreparedStatements(sqlite3 *db, int iCode){
  Btree *pMain = db->aDb[0].pBt;
  if( pMain && isSilica(pMain) ) silicaHandle(pMain)->expired++;
  stock_sqlite3ExpirePreparedStatements(db, iCode);
}
