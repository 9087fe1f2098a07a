
/*
** Our functions before those of SQLite's prepare.c: a statement that is prepared is one that was
** kept (statements.c), if there is such a one. Below is what tells which texts are equal but for
** their literals.
*/

#define SILICA_TEXT_MAX 4096   /* bytes of a text whose statement is kept */
#define SILICA_HIDDEN_MAX 31   /* literals of one; SQLite has that many bits for parameters */

typedef struct SilicaText SilicaText;
struct SilicaText {
  int nText;                   /* bytes of the statement with its semicolon, if it has one */
  int nKey;
  char zKey[SILICA_TEXT_MAX];  /* the text with ? in place of literals */
  int nHidden;
  int nValues;                 /* bytes of texts and blobs among the literals, at most */
  struct { int iFirst, nByte; } aHidden[SILICA_HIDDEN_MAX];
};

/* True for what names consist of, as SQLite's tokenizer has it. */
#define SILICA_ID(c) ((sqlite3CtypeMap[(u8)(c)] & 0x46)!=0)

/* Kinds of tokens, as far as it matters here. */
enum {
  SILICA_END, SILICA_SPACE, SILICA_WORD, SILICA_NUMBER, SILICA_STRING, SILICA_HEX, SILICA_COMPARES,
  SILICA_MINUS, SILICA_OPENS, SILICA_CLOSES, SILICA_COMMA, SILICA_SEMICOLON, SILICA_OTHER,
  SILICA_PARAMETER, SILICA_UNKNOWN
};

/* The token at z, which ends with a zero byte; *pn is its length. */
static int silicaToken(const unsigned char *z, int *pn){
  int i = 1;
  *pn = 1;
  switch( z[0] ){
    case 0: *pn = 0; return SILICA_END;
    case ' ': case '\t': case '\n': case '\r': case '\f': {
      while( z[i]==' ' || z[i]=='\t' || z[i]=='\n' || z[i]=='\r' || z[i]=='\f' ) i++;
      *pn = i;
      return SILICA_SPACE;
    }
    case '(': return SILICA_OPENS;
    case ')': return SILICA_CLOSES;
    case ',': return SILICA_COMMA;
    case ';': return SILICA_SEMICOLON;
    case '-':
      if( z[1]=='-' ) return SILICA_UNKNOWN;
      if( z[1]=='>' ){
        *pn = z[2]=='>' ? 3 : 2;
        return SILICA_OTHER;
      }
      return SILICA_MINUS;
    case '/': return z[1]=='*' ? SILICA_UNKNOWN : SILICA_OTHER;
    case '=': *pn = z[1]=='=' ? 2 : 1; return SILICA_COMPARES;
    case '<':
      if( z[1]=='<' ){ *pn = 2; return SILICA_OTHER; }
      *pn = z[1]=='=' || z[1]=='>' ? 2 : 1;
      return SILICA_COMPARES;
    case '>':
      if( z[1]=='>' ){ *pn = 2; return SILICA_OTHER; }
      *pn = z[1]=='=' ? 2 : 1;
      return SILICA_COMPARES;
    case '!': *pn = 2; return z[1]=='=' ? SILICA_COMPARES : SILICA_UNKNOWN;
    case '|': *pn = z[1]=='|' ? 2 : 1; return SILICA_OTHER;
    case '*': case '+': case '%': case '&': case '~': return SILICA_OTHER;
    case '?': case ':': case '@': case '$': case '#': return SILICA_PARAMETER;
    case '\'': {
      while( z[i] && z[i]!='\'' ) i++;
      *pn = i+1;
      /* A quote within it ends the search, and the text is taken as it stands. */
      return z[i]==0 || z[i+1]=='\'' ? SILICA_UNKNOWN : SILICA_STRING;
    }
    case '"': case '`': {
      while( z[i] && z[i]!=z[0] ) i++;
      *pn = i+1;
      return z[i]==0 || z[i+1]==z[0] ? SILICA_UNKNOWN : SILICA_WORD;
    }
    case '[': {
      while( z[i] && z[i]!=']' ) i++;
      *pn = i+1;
      return z[i]==0 ? SILICA_UNKNOWN : SILICA_WORD;
    }
    case '.': return sqlite3Isdigit(z[1]) ? SILICA_UNKNOWN : SILICA_OTHER;
  }
  if( (z[0]=='x' || z[0]=='X') && z[1]=='\'' ){
    for(i=2; sqlite3Isxdigit(z[i]); i++){}
    *pn = i+1;
    return z[i]=='\'' && i%2==0 ? SILICA_HEX : SILICA_UNKNOWN;
  }
  if( sqlite3Isdigit(z[0]) ){
    while( sqlite3Isdigit(z[i]) ) i++;
    if( z[i]=='.' ){
      i++;
      while( sqlite3Isdigit(z[i]) ) i++;
    }
    if( (z[i]=='e' || z[i]=='E')
     && (sqlite3Isdigit(z[i+1]) || ((z[i+1]=='-' || z[i+1]=='+') && sqlite3Isdigit(z[i+2]))) ){
      i += 2;
      while( sqlite3Isdigit(z[i]) ) i++;
    }
    *pn = i;
    /* Hexadecimal numbers, digits that are grouped, and those whose type their value decides. */
    return SILICA_ID(z[i]) || i>18 ? SILICA_UNKNOWN : SILICA_NUMBER;
  }
  if( SILICA_ID(z[0]) ){
    while( SILICA_ID(z[i]) ) i++;
    *pn = i;
    return SILICA_WORD;
  }
  return SILICA_UNKNOWN;
}

/* Words that matter here; 0 for any other. */
enum {
  SILICA_AND = 1, SILICA_OR, SILICA_WHERE, SILICA_ORDER, SILICA_LIMIT, SILICA_SET, SILICA_VALUES,
  SILICA_RETURNING, SILICA_SELECT, SILICA_CHANGES
};

static int silicaWord(const unsigned char *z, int n){
  const char *zWord = 0;
  int word = 0;
  switch( (n<<8) | (z[0]|0x20) ){
    case (2<<8)|'o': zWord = "OR"; word = SILICA_OR; break;
    case (3<<8)|'a': zWord = "AND"; word = SILICA_AND; break;
    case (3<<8)|'s': zWord = "SET"; word = SILICA_SET; break;
    case (5<<8)|'w': zWord = "WHERE"; word = SILICA_WHERE; break;
    case (5<<8)|'o': zWord = "ORDER"; word = SILICA_ORDER; break;
    case (5<<8)|'l': zWord = "LIMIT"; word = SILICA_LIMIT; break;
    case (6<<8)|'v': zWord = "VALUES"; word = SILICA_VALUES; break;
    case (6<<8)|'s': zWord = "SELECT"; word = SILICA_SELECT; break;
    case (6<<8)|'i': zWord = "INSERT"; word = SILICA_CHANGES; break;
    case (6<<8)|'u': zWord = "UPDATE"; word = SILICA_CHANGES; break;
    case (6<<8)|'d': zWord = "DELETE"; word = SILICA_CHANGES; break;
    case (7<<8)|'r': zWord = "REPLACE"; word = SILICA_CHANGES; break;
    case (9<<8)|'r': zWord = "RETURNING"; word = SILICA_RETURNING; break;
    default: return 0;
  }
  return sqlite3StrNICmp((const char*)z, zWord, n)==0 ? word : 0;
}

/* True if what follows at z leaves a literal that stands for itself alone. */
static int silicaEndsLiteral(const unsigned char *z){
  int n, token = silicaToken(z, &n);
  if( token==SILICA_SPACE ){
    z += n;
    token = silicaToken(z, &n);
  }
  switch( token ){
    case SILICA_END: case SILICA_SEMICOLON: case SILICA_COMMA: case SILICA_CLOSES: return 1;
    case SILICA_WORD: {
      int word = silicaWord(z, n);
      return word>=SILICA_AND && word<=SILICA_LIMIT;
    }
  }
  return 0;
}

/* Looks through the text of a statement; 0 for one that is not kept. Literals become parameters
** where SQLite does the same for both: as one side of a comparison behind WHERE, as what SET
** assigns, and as a value of VALUES. `hidesLiterals` is 0 where they are to stay. */
static int silicaRead(const unsigned char *zText, int nText, int hidesLiterals, SilicaText *pText){
  const unsigned char *z = zText;
  int n, nNext, token, before = SILICA_OTHER, depth = 0;
  int isBegun = 0;            /* the first word was seen */
  int isBehind = 0;           /* WHERE or SET was */
  int isValues = 0;           /* VALUES was, and nothing but rows since */
  int hides = hidesLiterals;
  int iCopied = 0;            /* what stands before it is in the key */
  pText->nHidden = pText->nValues = 0;
  pText->nKey = 0;
  for(;;){
    token = silicaToken(z, &n);
    if( token==SILICA_SPACE ){
      z += n;
      continue;
    }
    if( token==SILICA_END ) break;
    if( token==SILICA_UNKNOWN ) return 0;
    if( token==SILICA_WORD ){
      int word = silicaWord(z, n);
      if( !isBegun ){
        isBegun = 1;
        if( word!=SILICA_SELECT && word!=SILICA_CHANGES ) return 0;
      }else{
        if( word==SILICA_WHERE || word==SILICA_SET ) isBehind = 1;
        if( word==SILICA_RETURNING ) isBehind = 0;
        isValues = word==SILICA_VALUES || (isValues && depth>0);
        if( word==SILICA_SELECT ) hides = 0;
      }
    }
    if( token==SILICA_PARAMETER ) hides = 0;
    if( token==SILICA_OPENS ) depth++;
    if( token==SILICA_CLOSES ) depth--;
    if( hides ){
      int isPlace = (isBehind && before==SILICA_COMPARES)
          || (isValues && depth==1 && (before==SILICA_OPENS || before==SILICA_COMMA));
      if( isPlace && token==SILICA_MINUS && silicaToken(z+1, &nNext)==SILICA_NUMBER ){
        token = SILICA_NUMBER;
        n = 1+nNext;
      }
      if( isPlace && (token==SILICA_NUMBER || token==SILICA_STRING || token==SILICA_HEX)
       && silicaEndsLiteral(z+n) && pText->nHidden<SILICA_HIDDEN_MAX ){
        int iFirst = (int)(z - zText);
        pText->aHidden[pText->nHidden].iFirst = iFirst;
        pText->aHidden[pText->nHidden].nByte = n;
        pText->nHidden++;
        if( token!=SILICA_NUMBER ) pText->nValues += n;
        memcpy(&pText->zKey[pText->nKey], &zText[iCopied], iFirst-iCopied);
        pText->nKey += iFirst-iCopied;
        pText->zKey[pText->nKey++] = '?';
        iCopied = iFirst+n;
      }
    }
    z += n;
    if( token==SILICA_SEMICOLON ) break;
    before = token;
  }
  memcpy(&pText->zKey[pText->nKey], &zText[iCopied], (z-zText)-iCopied);
  pText->nKey += (int)(z-zText)-iCopied;
  if( !isBegun ) return 0;
  pText->nText = (int)(z - zText);
  if( !hides && pText->nHidden>0 ) return silicaRead(zText, nText, 0, pText);
  pText->zKey[pText->nKey] = 0;
  return 1;
}

/* Gives the hidden parameters the values of the literals in zText. */
static int silicaBindHidden(SilicaStatement *pStatement, const char *zText, SilicaText *pText){
  Vdbe *p = pStatement->pVdbe;
  u8 *aTo;
  int i;
  if( pText->nValues>pStatement->nBytes ){
    sqlite3_free(pStatement->aBytes);
    pStatement->aBytes = sqlite3Malloc(pText->nValues);
    pStatement->nBytes = pStatement->aBytes ? pText->nValues : 0;
    if( pStatement->aBytes==0 ) return SQLITE_NOMEM_BKPT;
  }
  aTo = pStatement->aBytes;
  for(i=0; i<pText->nHidden; i++){
    const char *z = &zText[pText->aHidden[i].iFirst];
    int n = pText->aHidden[i].nByte;
    Mem *pVar = &p->aVar[i];
    int rc = SQLITE_OK;
    if( z[0]=='\'' ){
      memcpy(aTo, z+1, n-1);
      aTo[n-2] = 0;
      rc = sqlite3VdbeMemSetStr(pVar, (char*)aTo, n-2, SQLITE_UTF8, SQLITE_STATIC);
      aTo += n-1;
    }else if( z[0]=='x' || z[0]=='X' ){
      int k, nBlob = (n-3)/2;
      for(k=0; k<nBlob; k++){
        aTo[k] = (sqlite3HexToInt(z[2+2*k])<<4) | sqlite3HexToInt(z[3+2*k]);
      }
      rc = sqlite3VdbeMemSetStr(pVar, (char*)aTo, nBlob, 0, SQLITE_STATIC);
      aTo += nBlob;
    }else{
      int k, isNegative = z[0]=='-', isInteger = 1;
      char zNumber[24];
      memcpy(zNumber, z+isNegative, n-isNegative);
      zNumber[n-isNegative] = 0;
      for(k=0; zNumber[k]; k++) isInteger = isInteger && sqlite3Isdigit(zNumber[k]);
      if( isInteger ){
        i64 value = 0;
        for(k=0; zNumber[k]; k++) value = value*10 + (zNumber[k]-'0');
        sqlite3VdbeMemSetInt64(pVar, isNegative ? -value : value);
      }else{
        double value = 0;
        sqlite3AtoF(zNumber, &value);
        sqlite3VdbeMemSetDouble(pVar, isNegative ? -value : value);
      }
    }
    if( rc!=SQLITE_OK ) return rc;
  }
  return SQLITE_OK;
}

/* A statement that was compiled from pText->zKey becomes one that can be kept. */
static SilicaStatement *silicaMake(
  Vdbe *p, SilicaText *pText, u32 hash, u8 prepFlags, u64 state
){
  SilicaStatement *pStatement = sqlite3MallocZero(sizeof(*pStatement)+pText->nKey);
  int isOneRow = 0;
  if( pStatement==0 ) return 0;
  pStatement->pVdbe = p;
  pStatement->state = state;
  pStatement->hash = hash;
  pStatement->nKey = pText->nKey;
  pStatement->nHidden = pText->nHidden;
  pStatement->prepFlags = prepFlags;
  pStatement->isKeepable = !silicaIsNotKept;
  pStatement->isCacheable = silicaIsCacheable(p, &isOneRow);
  pStatement->isOneRow = isOneRow;
  memcpy(pStatement->zKey, pText->zKey, pText->nKey);
  p->pParse = (Parse*)pStatement;
  p->prepFlags |= SILICA_PREPARED;
  return pStatement;
}

/* By rules 3 and 4 of statements.c: the program's text, and what it has in place of parameters. */
static int silicaDress(SilicaStatement *pStatement, const char *zText, SilicaText *pText){
  Vdbe *p = pStatement->pVdbe;
  int rc;
  if( pText->nHidden ){
    char *zSql = sqlite3DbStrNDup(p->db, zText, pText->nText);
    if( zSql==0 ) return SQLITE_NOMEM_BKPT;
    sqlite3DbFree(p->db, p->zSql);
    p->zSql = zSql;
  }
  rc = silicaBindHidden(pStatement, zText, pText);
  p->nVar = pText->nHidden ? 0 : p->nVar;
  return rc;
}

/* Compiles a text and makes a statement of it that can be kept. With literals hidden it answers
** SQLITE_MISMATCH if they had better not be. */
static int silicaCompile(
  sqlite3 *db, SilicaText *pText, u32 hash, u32 prepFlags, SilicaStatement **ppStatement
){
  sqlite3_stmt *pStmt = 0;
  Vdbe *p;
  int rc;
  *ppStatement = 0;
  silicaIsNotKept = 0;
  rc = sqlite3LockAndPrepare(db, pText->zKey, pText->nKey, prepFlags, 0, &pStmt, 0);
  if( rc!=SQLITE_OK || pStmt==0 ) return rc==SQLITE_OK ? SQLITE_MISMATCH : rc;
  p = (Vdbe*)pStmt;
  if( pText->nHidden && (p->expmask || p->nVar!=pText->nHidden || p->pVList) ){
    rc = SQLITE_MISMATCH;
  }else{
    /* The state is that after compiling, which may have read the schema. */
    *ppStatement = silicaMake(p, pText, hash, (u8)prepFlags, silicaState(db));
    if( *ppStatement==0 ) rc = SQLITE_NOMEM_BKPT;
  }
  if( rc!=SQLITE_OK ) sqlite3_finalize(pStmt);
  return rc;
}

static int silicaPrepare(
  sqlite3 *db, const char *zText, SilicaText *pText, u32 prepFlags, sqlite3_stmt **ppStmt
){
  SilicaStatements *pAll = silicaStatements(db);
  SilicaStatement *pStatement;
  u32 hash;
  int rc;
  if( pAll==0 ) return SQLITE_MISMATCH;
  hash = silicaHash(pText->zKey, pText->nKey);
  if( pText->nHidden && pAll->aUnfit[hash%ArraySize(pAll->aUnfit)]==hash ){
    silicaRead((const unsigned char*)zText, (int)strlen(zText), 0, pText);
    hash = silicaHash(pText->zKey, pText->nKey);
  }
  pStatement = silicaTake(pAll, pText->zKey, pText->nKey, pText->nHidden, hash, (u8)prepFlags,
                          silicaState(db));
  if( pStatement ){
    pAll->nTaken++;
  }else{
    pAll->nCompiled++;
    rc = silicaCompile(db, pText, hash, prepFlags, &pStatement);
    if( rc!=SQLITE_OK ){
      if( rc==SQLITE_MISMATCH && pText->nHidden ) pAll->aUnfit[hash%ArraySize(pAll->aUnfit)] = hash;
      return SQLITE_MISMATCH;
    }
  }
  rc = silicaDress(pStatement, zText, pText);
  *ppStmt = (sqlite3_stmt*)pStatement->pVdbe;
  if( rc!=SQLITE_OK ){
    pStatement->isKeepable = 0;
    sqlite3_finalize(*ppStmt);
    *ppStmt = 0;
    return rc;
  }
  if( db->errCode!=SQLITE_OK || db->pErr ) sqlite3Error(db, SQLITE_OK);
  db->errByteOffset = -1;
  db->busyHandler.nBusy = 0;
  return SQLITE_OK;
}

/* Prepares by what is kept. SQLITE_MISMATCH says that SQLite's own compiler shall see the text:
** where it is none of these, and wherever there is an error, which it puts into words. */
static int silicaTryPrepare(
  sqlite3 *db, const char *zSql, int nBytes, u32 prepFlags, sqlite3_stmt **ppStmt,
  const char **pzTail
){
  char zStack[SILICA_TEXT_MAX];
  SilicaText text;
  const char *zText = zSql;
  size_t nText;
  int rc;
  if( ppStmt==0 || zSql==0 || !sqlite3SafetyCheckOk(db) ) return SQLITE_MISMATCH;
  nText = nBytes<0 ? strnlen(zSql, SILICA_TEXT_MAX) : strnlen(zSql, nBytes);
  if( nText>=SILICA_TEXT_MAX ) return SQLITE_MISMATCH;
  if( nBytes>=0 ){
    memcpy(zStack, zSql, nText);
    zStack[nText] = 0;
    zText = zStack;
  }
  if( !silicaRead((const unsigned char*)zText, (int)nText, 1, &text) ) return SQLITE_MISMATCH;
  sqlite3_mutex_enter(db->mutex);
  rc = SQLITE_MISMATCH;
  /* An authorizer is asked each time. */
  if( db->xAuth==0 && !db->init.busy && !db->mallocFailed && ENC(db)==SQLITE_UTF8
   && text.nText<=db->aLimit[SQLITE_LIMIT_SQL_LENGTH] ){
    rc = silicaPrepare(db, zText, &text, prepFlags, ppStmt);
  }
  if( rc==SQLITE_OK && pzTail ) *pzTail = &zSql[text.nText];
  if( rc!=SQLITE_OK && rc!=SQLITE_MISMATCH ) rc = sqlite3ApiExit(db, rc);
  sqlite3_mutex_leave(db->mutex);
  return rc;
}

SQLITE_API int sqlite3_prepare_v2(
  sqlite3 *db, const char *zSql, int nBytes, sqlite3_stmt **ppStmt, const char **pzTail
){
  int rc = silicaTryPrepare(db, zSql, nBytes, SQLITE_PREPARE_SAVESQL, ppStmt, pzTail);
  if( rc==SQLITE_MISMATCH ) rc = stock_sqlite3_prepare_v2(db, zSql, nBytes, ppStmt, pzTail);
  return rc;
}

SQLITE_API int sqlite3_prepare_v3(
  sqlite3 *db, const char *zSql, int nBytes, unsigned int prepFlags, sqlite3_stmt **ppStmt,
  const char **pzTail
){
  u32 flags = SQLITE_PREPARE_SAVESQL | (prepFlags & SQLITE_PREPARE_MASK);
  int rc = silicaTryPrepare(db, zSql, nBytes, flags, ppStmt, pzTail);
  if( rc==SQLITE_MISMATCH ){
    rc = stock_sqlite3_prepare_v3(db, zSql, nBytes, prepFlags, ppStmt, pzTail);
  }
  return rc;
}

#ifdef SILICA_IS_PREFIXED
/* How many statements of the connection were compiled and taken from those kept, and how many
** results were computed and served; only of those texts that are looked at for it. */
void silica_statement_counts(sqlite3 *db, sqlite3_uint64 *aCount){
  SilicaStatements *pAll;
  memset(aCount, 0, 4*sizeof(aCount[0]));
  sqlite3_mutex_enter(db->mutex);
  pAll = silicaStatements(db);
  if( pAll ){
    aCount[0] = pAll->nCompiled;
    aCount[1] = pAll->nTaken;
    aCount[2] = pAll->nComputed;
    aCount[3] = pAll->nServed;
  }
  sqlite3_mutex_leave(db->mutex);
}
#endif

/* A statement whose schema has changed is compiled from the program's own text. It is kept no more:
** what it was found by names another program. */
SQLITE_PRIVATE int sqlite3Reprepare(Vdbe *p){
  SilicaStatement *pStatement = silicaStatementOf(p);
  int rc;
  if( pStatement==0 ) return stock_sqlite3Reprepare(p);
  if( pStatement->nHidden ) p->nVar = 0;
  p->prepFlags &= ~SILICA_PREPARED;
  rc = stock_sqlite3Reprepare(p);
  /* Of what was swapped with a new statement these are this one's. */
  p->pParse = (Parse*)pStatement;
  p->prepFlags |= SILICA_PREPARED;
  pStatement->isKeepable = pStatement->isCacheable = 0;
  if( rc==SQLITE_OK ) pStatement->nHidden = 0;
  return rc;
}
