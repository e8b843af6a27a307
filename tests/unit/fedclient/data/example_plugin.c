/* A data plugin: samples of two floats, (index, label), made up as they are asked for. The file
 * `count` in the directory says how many there are; a test sets the ABI and makes reading fail. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fedclient/data/data_plugin.h"

#ifndef EXAMPLE_ABI
#define EXAMPLE_ABI FEDQUEUE_DATA_ABI
#endif

struct dataset {
  int64_t samples;
  int64_t classes;
};

static void* open_dataset(const char* directory, int held_out, char* error, size_t error_bytes) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, held_out ? "held_out.count" : "train.count");
  FILE* file = fopen(path, "r");
  struct dataset* dataset = calloc(1, sizeof *dataset);
  long long samples = 0;
  long long classes = 0;
  if (file == NULL || dataset == NULL || fscanf(file, "%lld %lld", &samples, &classes) != 2) {
    snprintf(error, error_bytes, "there is no count in %s", path);
    free(dataset);
    dataset = NULL;
  } else {
    dataset->samples = samples;
    dataset->classes = classes;
  }
  if (file != NULL) fclose(file);
  return dataset;
}

static int describe(void* opened, struct fedqueue_data_description* out, char* error,
                    size_t error_bytes) {
  const struct dataset* dataset = opened;
  (void)error;
  (void)error_bytes;
  out->samples = dataset->samples;
  out->classes = dataset->classes;
  out->type = FEDQUEUE_DATA_F32;
  out->dimensions = 1;
  out->sizes[0] = 2;
  return 0;
}

/* The last sample of an odd number has a label too many. */
static int labels(void* opened, int32_t* out, char* error, size_t error_bytes) {
  const struct dataset* dataset = opened;
  (void)error;
  (void)error_bytes;
  for (int64_t i = 0; i < dataset->samples; ++i) out[i] = (int32_t)(i % dataset->classes);
  if (dataset->samples % 2 == 1) out[dataset->samples - 1] = (int32_t)dataset->classes;
  return 0;
}

/* Sample 666 cannot be read. */
static int read_samples(void* opened, const int64_t* indices, int64_t count, void* out, char* error,
                        size_t error_bytes) {
  const struct dataset* dataset = opened;
  float* values = out;
  for (int64_t i = 0; i < count; ++i) {
    if (indices[i] == 666) {
      snprintf(error, error_bytes, "sample %lld is lost", (long long)indices[i]);
      return -1;
    }
    *values++ = (float)indices[i];
    *values++ = (float)(indices[i] % dataset->classes);
  }
  return 0;
}

static void close_dataset(void* opened) { free(opened); }

static const struct fedqueue_data_functions table = {EXAMPLE_ABI, open_dataset, describe,
                                                     labels,      read_samples, close_dataset};

const struct fedqueue_data_functions* fedqueue_data_plugin(void) { return &table; }
