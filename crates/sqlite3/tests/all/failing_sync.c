/* fdatasync and fsync that fail while the file exists that FAILING_SYNC names: as a device does that
** cannot write what it has accepted. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int sync_or_fail(int fd, const char *name){
  const char *path = getenv("FAILING_SYNC");
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  if( path && access(path, F_OK)==0 ){
    errno = EIO;
    return -1;
  }
  return real(fd);
}

int fdatasync(int fd){ return sync_or_fail(fd, "fdatasync"); }
int fsync(int fd){ return sync_or_fail(fd, "fsync"); }
