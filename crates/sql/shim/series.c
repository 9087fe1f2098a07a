/*
** generate_series: numbers as rows, as in SQLite's shell. A connection has it if its program asks
** for it.
**
**   SELECT value FROM generate_series(1, 10, 2);
**
** 1. The stop is 4294967295 if it is not given, the step 1; a step of 0 is 1. Nothing comes of an
**    argument that is NULL.
** 2. The count of steps left is unsigned, so that a series may end at either end of the integers.
*/
typedef struct SeriesCursor SeriesCursor;
struct SeriesCursor {
  sqlite3_vtab_cursor base;
  sqlite3_int64 iStart, iStop, iStep;    /* As they were given */
  sqlite3_int64 iValue;
  sqlite3_int64 iMove;                   /* To the next value */
  sqlite3_uint64 nLeft;                  /* Values behind this one */
  int isEnd;
};

static int seriesConnect(
  sqlite3 *db, void *pAux, int argc, const char *const*argv, sqlite3_vtab **ppVtab, char **pzErr
){
  int rc = sqlite3_declare_vtab(
      db, "CREATE TABLE x(value INTEGER, start HIDDEN, stop HIDDEN, step HIDDEN)");
  *ppVtab = 0;
  if( rc!=SQLITE_OK ) return rc;
  *ppVtab = sqlite3MallocZero(sizeof(**ppVtab));
  if( *ppVtab==0 ) return SQLITE_NOMEM_BKPT;
  sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
  return SQLITE_OK;
}

static int seriesDisconnect(sqlite3_vtab *pVtab){
  sqlite3_free(pVtab);
  return SQLITE_OK;
}

/* idxNum has bit 0, 1, 2 for start, stop, step, whose values come in this order; bit 3 for numbers
** that are to come from the greatest on, bit 4 for those from the least on. */
#define SERIES_DOWN 8
#define SERIES_UP 16

static int seriesBestIndex(sqlite3_vtab *pVtab, sqlite3_index_info *pInfo){
  int aTerm[3] = {-1, -1, -1};
  int i, nArg = 0, idx = 0;
  for(i=0; i<pInfo->nConstraint; i++){
    const struct sqlite3_index_constraint *pTerm = &pInfo->aConstraint[i];
    if( pTerm->iColumn<1 || pTerm->op!=SQLITE_INDEX_CONSTRAINT_EQ ) continue;
    if( !pTerm->usable ) return SQLITE_CONSTRAINT;
    if( aTerm[pTerm->iColumn-1]<0 ) aTerm[pTerm->iColumn-1] = i;
  }
  if( aTerm[0]<0 ){
    sqlite3_free(pVtab->zErrMsg);
    pVtab->zErrMsg = sqlite3_mprintf("generate_series() needs the number to start with");
    return SQLITE_ERROR;
  }
  for(i=0; i<3; i++){
    if( aTerm[i]<0 ) continue;
    idx |= 1<<i;
    pInfo->aConstraintUsage[aTerm[i]].argvIndex = ++nArg;
    pInfo->aConstraintUsage[aTerm[i]].omit = 1;
  }
  if( pInfo->nOrderBy==1 && pInfo->aOrderBy[0].iColumn==0 ){
    idx |= pInfo->aOrderBy[0].desc ? SERIES_DOWN : SERIES_UP;
    pInfo->orderByConsumed = 1;
  }
  pInfo->idxNum = idx;
  pInfo->estimatedRows = (idx & 2) ? 1000 : 2147483647;
  pInfo->estimatedCost = (double)pInfo->estimatedRows;
  return SQLITE_OK;
}

static int seriesOpen(sqlite3_vtab *pVtab, sqlite3_vtab_cursor **ppCursor){
  SeriesCursor *pCur = sqlite3MallocZero(sizeof(*pCur));
  if( pCur==0 ) return SQLITE_NOMEM_BKPT;
  pCur->isEnd = 1;
  *ppCursor = &pCur->base;
  return SQLITE_OK;
}

static int seriesClose(sqlite3_vtab_cursor *pCursor){
  sqlite3_free(pCursor);
  return SQLITE_OK;
}

static int seriesFilter(
  sqlite3_vtab_cursor *pCursor, int idxNum, const char *idxStr, int argc, sqlite3_value **argv
){
  SeriesCursor *pCur = (SeriesCursor*)pCursor;
  sqlite3_int64 aGiven[3] = {0, 0xffffffff, 1};
  sqlite3_uint64 nStep, nWidth;
  int i, iArg = 0, isDown;
  pCur->isEnd = 1;
  for(i=0; i<3; i++){
    if( (idxNum & (1<<i))==0 ) continue;
    if( sqlite3_value_type(argv[iArg])==SQLITE_NULL ) return SQLITE_OK;
    aGiven[i] = sqlite3_value_int64(argv[iArg++]);
  }
  if( aGiven[2]==0 ) aGiven[2] = 1;
  pCur->iStart = aGiven[0];
  pCur->iStop = aGiven[1];
  pCur->iStep = aGiven[2];
  isDown = pCur->iStep<0;
  if( isDown ? pCur->iStart<pCur->iStop : pCur->iStart>pCur->iStop ) return SQLITE_OK;
  nWidth = isDown ? (sqlite3_uint64)pCur->iStart - (sqlite3_uint64)pCur->iStop
                  : (sqlite3_uint64)pCur->iStop - (sqlite3_uint64)pCur->iStart;
  nStep = isDown ? 0 - (sqlite3_uint64)pCur->iStep : (sqlite3_uint64)pCur->iStep;
  pCur->nLeft = nWidth/nStep;
  pCur->iValue = pCur->iStart;
  pCur->iMove = pCur->iStep;
  if( (idxNum & (isDown ? SERIES_UP : SERIES_DOWN))!=0 ){
    /* From its other end. */
    pCur->iValue = (sqlite3_int64)((sqlite3_uint64)pCur->iStart
                                   + pCur->nLeft*(sqlite3_uint64)pCur->iStep);
    pCur->iMove = (sqlite3_int64)(0 - (sqlite3_uint64)pCur->iStep);
  }
  pCur->isEnd = 0;
  return SQLITE_OK;
}

static int seriesNext(sqlite3_vtab_cursor *pCursor){
  SeriesCursor *pCur = (SeriesCursor*)pCursor;
  if( pCur->nLeft==0 ){
    pCur->isEnd = 1;
  }else{
    pCur->nLeft--;
    pCur->iValue = (sqlite3_int64)((sqlite3_uint64)pCur->iValue + (sqlite3_uint64)pCur->iMove);
  }
  return SQLITE_OK;
}

static int seriesEof(sqlite3_vtab_cursor *pCursor){
  return ((SeriesCursor*)pCursor)->isEnd;
}

static int seriesColumn(sqlite3_vtab_cursor *pCursor, sqlite3_context *pCtx, int iColumn){
  SeriesCursor *pCur = (SeriesCursor*)pCursor;
  sqlite3_int64 aColumn[4];
  aColumn[0] = pCur->iValue;
  aColumn[1] = pCur->iStart;
  aColumn[2] = pCur->iStop;
  aColumn[3] = pCur->iStep;
  sqlite3_result_int64(pCtx, aColumn[iColumn]);
  return SQLITE_OK;
}

static int seriesRowid(sqlite3_vtab_cursor *pCursor, sqlite3_int64 *pRowid){
  *pRowid = ((SeriesCursor*)pCursor)->iValue;
  return SQLITE_OK;
}

/* Without xCreate, it is a function only. */
static sqlite3_module seriesModule = {
  /* iVersion      */ 0,
  /* xCreate       */ 0,
  /* xConnect      */ seriesConnect,
  /* xBestIndex    */ seriesBestIndex,
  /* xDisconnect   */ seriesDisconnect,
  /* xDestroy      */ seriesDisconnect,
  /* xOpen         */ seriesOpen,
  /* xClose        */ seriesClose,
  /* xFilter       */ seriesFilter,
  /* xNext         */ seriesNext,
  /* xEof          */ seriesEof,
  /* xColumn       */ seriesColumn,
  /* xRowid        */ seriesRowid
};

/* For the Rust part (sql/functions.rs). */
int SILICA_ADD_SERIES(sqlite3 *db){
  return sqlite3_create_module_v2(db, "generate_series", &seriesModule, 0, 0);
}
