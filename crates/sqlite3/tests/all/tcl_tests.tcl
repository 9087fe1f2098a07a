# Runs one file of SQLite's own tests on the SQLite library that is loaded: `tclsh THIS TESTS FILE`.
#
# The tests expect a program with SQLite's test commands in it. What those set up is left out here,
# and what they answer about the build is said here; a case that needs another of them fails, on
# every storage.

package require sqlite3

foreach name {
  sqlite3_shutdown sqlite3_initialize install_malloc_faultsim autoinstall_test_functions
  sqlite3_soft_heap_limit64 sqlite3_hard_heap_limit64 sqlite3_config_memstatus
  sqlite3_reset_auto_extension sqlite3_memdebug_settitle sqlite3_test_control_pending_byte
  sqlite3_extended_result_codes sqlite3_db_config_lookaside
  database_never_corrupt database_may_be_corrupt extra_schema_checks optimization_control
  vfs_unlink_test vfs_initfail_test sqlite3_memdebug_dump
} {
  proc $name {args} {return 0}
}
proc sqlite3_connection_pointer {db} {return $db}
proc sqlite3_memory_used {} {return 0}
proc sqlite3_memory_highwater {args} {return 0}
proc sqlite3_status {args} {return {0 0 0}}
proc sqlite3_enable_shared_cache {args} {return 0}
proc sqlite3_sleep {ms} {after $ms}

# What the build has and has not, by the tests' names.
array set sqlite_options {}
foreach name {
  subquery vtab compound trigger fts3 view utf16 tempdb altertable attach wal pager_pragmas
  floatingpoint schema_pragmas stat4 vacuum explain autovacuum bloblit incrblob foreignkey
  windowfunc pragma conflict integrityck rtree cte json1 fts5 fts4_deferred schema_version
  reindex analyze datetime curdir auth autoinc trace memorydb like_match_blobs deprecated
  threadsafe threadsafe1 columnmetadata complete progress or_opt check cast between_opt
  autoindex like_opt lfs hiddencolumns compileoption_diags mergesort offset_sql_func gettable
  builtin_test subtype secure_delete load_ext lookaside truncate_opt crashtest_off mutex
  bloblit tcl_off null_trim_off mathlib generated_always returning upsert update_from normalize
  math
} {
  set sqlite_options($name) 1
}
foreach name {
  shared_cache icu tclvar fts1 fts2 memorymanage crashtest mmap update_delete_limit snapshot
  oversize_cell_check dirsync direct_read autoreset 8_3_names lock_proxy_pragmas
  default_autovacuum debug cursorhints atomicwrite uri_00_error unlock_notify preupdate mem5
  mem3 long_double legacyformat fts3_unicode deserialize rowid32 rbu prefer_proxy_locking
  malloc_usable_size api_armor wsd win32malloc userauth threadsafe2 stmtvtab sqllog
  shared_chache session scanstatus pagecache_overflow_stats multiplex_ext_overwrite
  icu_collations mutex_noop has_codec fast_secure_delete default_ckptfullfsync memdebug lookaside_debug
  memsubsys1 diskio malloc_off unknown_off
} {
  set sqlite_options($name) 0
}
set sqlite_options(default_cache_size) -2000
set sqlite_options(default_file_format) 4
set sqlite_options(threadsafe) 1
foreach {name value} {
  SQLITE_MAX_ATTACHED 10 SQLITE_MAX_COLUMN 2000 SQLITE_MAX_COMPOUND_SELECT 500
  SQLITE_MAX_DEFAULT_PAGE_SIZE 8192 SQLITE_MAX_EXPR_DEPTH 1000 SQLITE_MAX_LENGTH 1000000000
  SQLITE_MAX_PAGE_COUNT 4294967294 SQLITE_MAX_PAGE_SIZE 65536 SQLITE_MAX_SQL_LENGTH 1000000000
  SQLITE_MAX_VARIABLE_NUMBER 32766 SQLITE_MAX_VDBE_OP 250000000 SQLITE_MAX_WORKER_THREADS 8
  SQLITE_DEFAULT_PAGE_SIZE 4096 SQLITE_DEFAULT_CACHE_SIZE -2000 SQLITE_MAX_TRIGGER_DEPTH 1000
  SQLITE_MAX_FUNCTION_ARG 127 SQLITE_MAX_LIKE_PATTERN_LENGTH 50000 TEMP_STORE 1
} {
  set $name $value
}
foreach name {
  sqlite_search_count sqlite_sort_count sqlite_found_count sqlite_like_count sqlite_xferopt_count
  sqlite_interrupt_count sqlite_max_blobsize sqlite_open_file_count sqlite_current_time
  sqlite_sync_count sqlite_fullsync_count sqlite_query_plan sqlite_io_error_pending
  sqlite_io_error_hit sqlite_diskfull_pending sqlite_diskfull sqlite_opentemp_count
  sqlite_pending_byte bitmask_size
} {
  set $name 0
}
set sqlite_pending_byte 0x40000000
set bitmask_size 64

set tests [lindex $argv 0]
set file [lindex $argv 1]
set argv0 $tests/$file
set argv [list --testdir=[pwd]/of-$file]
source $tests/$file
