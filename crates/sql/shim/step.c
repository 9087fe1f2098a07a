
/* Our function before that of SQLite's vdbeapi.c: a step of a statement whose result is kept, or may
** be (results.c). */
SQLITE_API int sqlite3_step(sqlite3_stmt *pStmt){
  Vdbe *p = (Vdbe*)pStmt;
  SilicaStatement *pStatement;
  sqlite3 *db;
  int rc;
  if( p==0 || p->db==0 || (pStatement = silicaStatementOf(p))==0 ) return stock_sqlite3_step(pStmt);
  db = p->db;
  sqlite3_mutex_enter(db->mutex);
  if( p->eVdbeState!=VDBE_RUN_STATE ){
    if( p->eVdbeState==VDBE_HALT_STATE ) sqlite3_reset(pStmt);
    silicaBeginResult(pStatement);
  }
  if( pStatement->isServing ){
    rc = silicaServe(pStatement);
  }else{
    /* Hidden parameters are there for the program only. */
    if( pStatement->nHidden ) p->nVar = pStatement->nHidden;
    rc = stock_sqlite3_step(pStmt);
    if( pStatement->nHidden ) p->nVar = 0;
    if( pStatement->isRecording ) silicaRecordStep(pStatement, rc);
  }
  sqlite3_mutex_leave(db->mutex);
  return rc;
}
