/* Data of any kind for fedclient: `fedclient train --data-plugin ./mine.so --dataset DIR`.
 *
 * A plugin is a shared object with one symbol, fedqueue_data_plugin(), which returns a table of
 * functions. It is C, so that it may be written in any language and outlives compilers; a table of
 * another version is refused when it is loaded.
 *
 *   cc -shared -fPIC -o mine.so mine.c        (this header is installed as fedqueue/data_plugin.h)
 *
 * Calls: open once for each split and rank, describe and labels, then read again and again, close.
 * Functions that can fail return 0 on success; otherwise they write one sentence into `error`, of
 * at most `error_bytes` with its final zero, and training ends with it.
 *
 * Thread safety: `read` is called from several threads at once (option loader_threads), everything
 * else from one. */
#ifndef FEDQUEUE_DATA_PLUGIN_H
#define FEDQUEUE_DATA_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FEDQUEUE_DATA_ABI 1
#define FEDQUEUE_DATA_DIMENSIONS_MAX 8

enum fedqueue_data_type {
  FEDQUEUE_DATA_U8 = 1, /* scaled to -1 ... 1 unless the run normalises */
  FEDQUEUE_DATA_F32 = 2 /* native byte order; every value finite */
};

struct fedqueue_data_description {
  int64_t samples; /* at least 1 */
  int64_t classes; /* labels are 0 ... classes - 1, at most 1,000,000 of them */
  int32_t type;    /* enum fedqueue_data_type */
  int32_t dimensions;
  int64_t sizes[FEDQUEUE_DATA_DIMENSIONS_MAX]; /* of one sample: channels, rows, columns */
};

struct fedqueue_data_functions {
  uint32_t abi; /* FEDQUEUE_DATA_ABI */
  /* What is in the directory that --dataset names; NULL if it failed. */
  void* (*open)(const char* directory, int held_out, char* error, size_t error_bytes);
  int (*describe)(void* dataset, struct fedqueue_data_description* out, char* error,
                  size_t error_bytes);
  /* The labels of all samples, in their order. */
  int (*labels)(void* dataset, int32_t* out, char* error, size_t error_bytes);
  /* `count` samples, one after the other, each laid out with the last size fastest. Indices are 0
   * ... samples - 1, in any order. */
  int (*read)(void* dataset, const int64_t* indices, int64_t count, void* out, char* error,
              size_t error_bytes);
  void (*close)(void* dataset);
};

/* What a plugin defines. The table must stay valid. */
const struct fedqueue_data_functions* fedqueue_data_plugin(void);

#ifdef __cplusplus
}
#endif

#endif
