/*
** Our function before that of SQLite's build.c: a table whose own index is by a collation of the
** application's is refused when it is made, as CREATE INDEX is. SQLite looks at that index first
** when a row comes.
*/
SQLITE_PRIVATE void sqlite3EndTable(
  Parse *pParse, Token *pCons, Token *pEnd, u32 tabOpts, Select *pSelect
){
  sqlite3 *db = pParse->db;
  Table *pTab = pParse->pNewTable;
  Index *pIdx;
  int i, iDb;
  if( pTab && pParse->nErr==0 && !db->init.busy && !IN_SPECIAL_PARSE ){
    iDb = sqlite3SchemaToIndex(db, pTab->pSchema);
    if( iDb>=0 && db->aDb[iDb].pBt && isSilica(db->aDb[iDb].pBt) ){
      for(pIdx=pTab->pIndex; pIdx; pIdx=pIdx->pNext){
        for(i=0; i<pIdx->nKeyCol; i++){
          if( !silicaOrdersBy(pIdx->azColl[i]) ){
            sqlite3ErrorMsg(pParse, SILICA_OWN_COLLATION, pIdx->azColl[i]);
            return;
          }
        }
      }
    }
  }
  stock_sqlite3EndTable(pParse, pCons, pEnd, tabOpts, pSelect);
}
