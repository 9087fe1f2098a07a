/*
** Our functions before those of SQLite's pager.c. A Silica database has the Pager of an empty
** database in memory (btree.c); it is known by its Vfs. What a Pager is asked from outside:
**
** | asked                          | answer for a Silica database                               |
** |--------------------------------|------------------------------------------------------------|
** | journal mode                   | WAL, always: readers and one writer side by side           |
** | locking mode                   | what is asked for; a process has the store in any case |
** | other journal mode             | refused, silently, as SQLite does in memory                |
** | file, journal file, Vfs        | no file; the default Vfs                                   |
** | in memory?                     | no                                                         |
** | memory used, cache statistics  | of the empty database: what a store takes, it tells itself |
** | cache flush, shrink            | nothing to do                                              |
** | exclusive lock for a commit    | had, since one transaction writes                          |
** | checkpoint (btree.c)           | a sync                                                     |
** | snapshots, pages (dbpage)      | as of an empty database                                    |
*/
#include "silica_store.h"

/* What a store said of its last error, for the messages of this thread: main.c puts it behind the
** text that SQLite has for the code. Whoever uses a database next forgets it. */
static SQLITE_THREAD_LOCAL char silicaWords[1024];
static SQLITE_THREAD_LOCAL int silicaWordsCode = 0;

/* The default Vfs under another address. */
static sqlite3_vfs silicaVfsObject;
static sqlite3_vfs *silicaVfs(void){
  if( silicaVfsObject.xOpen==0 ){
    sqlite3_mutex *pMutex = sqlite3MutexAlloc(SQLITE_MUTEX_STATIC_MAIN);
    sqlite3_vfs *pDefault = sqlite3_vfs_find(0);
    sqlite3_mutex_enter(pMutex);
    if( pDefault ) silicaVfsObject = *pDefault;
    sqlite3_mutex_leave(pMutex);
  }
  return &silicaVfsObject;
}
#define isSilicaPager(pPager) ((pPager)->pVfs==&silicaVfsObject)

SQLITE_PRIVATE int sqlite3PagerGetJournalMode(Pager *pPager){
  if( isSilicaPager(pPager) ) return PAGER_JOURNALMODE_WAL;
  return stock_sqlite3PagerGetJournalMode(pPager);
}

SQLITE_PRIVATE int sqlite3PagerSetJournalMode(Pager *pPager, int eMode){
  if( isSilicaPager(pPager) ) return PAGER_JOURNALMODE_WAL;
  return stock_sqlite3PagerSetJournalMode(pPager, eMode);
}

SQLITE_PRIVATE int sqlite3PagerOkToChangeJournalMode(Pager *pPager){
  if( isSilicaPager(pPager) ) return 0;
  return stock_sqlite3PagerOkToChangeJournalMode(pPager);
}

SQLITE_PRIVATE int sqlite3PagerIsMemdb(Pager *pPager){
  if( isSilicaPager(pPager) ) return 0;
  return stock_sqlite3PagerIsMemdb(pPager);
}

/* A Pager in memory stays in exclusive mode, whatever it is asked for. */
SQLITE_PRIVATE int sqlite3PagerLockingMode(Pager *pPager, int eMode){
  if( isSilicaPager(pPager) ) return eMode>=0 ? eMode : PAGER_LOCKINGMODE_NORMAL;
  return stock_sqlite3PagerLockingMode(pPager, eMode);
}

SQLITE_PRIVATE int sqlite3PagerExclusiveLock(Pager *pPager){
  if( isSilicaPager(pPager) ) return SQLITE_OK;
  return stock_sqlite3PagerExclusiveLock(pPager);
}

