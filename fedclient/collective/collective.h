// What the ranks of one job say to each other: broadcast, sum, extremes, barrier.
//
// Buffers are raw memory so that nothing here knows LibTorch. The host calls work everywhere; the
// device calls take device pointers and a CUDA stream and exist only where `device_buffers()` is
// true (NCCL, or one rank alone). Every call but abort() is made by every rank in the same order.
//
// After a failure the communicator is in an unknown state: nothing is ever retried on it; the
// caller aborts and leaves.
//
// Sums of gradients go on while the caller computes: begin_sum() for each range as soon as it is
// complete, in the same order on every rank, then finish_sums(). A range belongs to the collective
// in between, and no other call is made then.
//
//   (begin_sum | begin_sum_device)*  finish_sums | finish_sums_device
//
// Source: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training"
// (2020), section 3.2.3 (overlap of computation and communication).
//
// Thread safety: one thread at a time makes the calls; abort() and the identity getters may be
// called from any thread at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/result.h"

namespace fedqueue {

// Of the sums that were begun, since the start.
struct SumSeconds {
  double under_way = 0;  // while one was, which includes waiting for slower ranks
  double exposed = 0;    // of this, while the caller (or its stream) did nothing but wait
};

class Collective {
 public:
  virtual ~Collective() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  // Position among the ranks of this host.
  [[nodiscard]] virtual int local_rank() const = 0;
  [[nodiscard]] virtual int local_size() const = 0;
  [[nodiscard]] virtual const std::string& host() const = 0;
  // "single", "mpi" or "nccl".
  [[nodiscard]] virtual const char* kind() const = 0;

  // Copies root's bytes to every rank.
  virtual Status broadcast(void* data, std::size_t bytes, int root) = 0;
  // The same while the root may be busy for minutes: waits without using a core.
  virtual Status broadcast_patiently(void* data, std::size_t bytes, int root) = 0;
  // Replaces each element by its sum over the ranks.
  virtual Status all_reduce_sum(float* data, std::size_t count) = 0;
  virtual Status all_reduce_sum(double* data, std::size_t count) = 0;
  virtual Result<std::int64_t> minimum(std::int64_t value) = 0;
  virtual Result<std::int64_t> maximum(std::int64_t value) = 0;
  virtual Status barrier() = 0;

  virtual Status begin_sum(float* data, std::size_t count) = 0;
  virtual Status finish_sums() = 0;
  [[nodiscard]] virtual SumSeconds sum_seconds() const = 0;

  [[nodiscard]] virtual bool device_buffers() const = 0;
  // `stream` is the one that computes the range. Work that is put on it after finish_sums_device()
  // finds the sums; the call itself does not wait.
  virtual Status begin_sum_device(float* data, std::size_t count, void* stream) = 0;
  virtual Status finish_sums_device(void* stream) = 0;

  // Ends every rank of the job, this one included, with this exit code. Does not return, unless the
  // library below hangs; callers that cannot afford that set up a hard exit first.
  virtual void abort(int exit_code) noexcept = 0;
};

// One rank alone; every call succeeds at once.
std::unique_ptr<Collective> make_single_collective();

struct CollectiveOptions {
  bool gpu = false;     // NCCL for device buffers; needs a build with CUDA
  int gpu_ordinal = 0;  // filled in by launch(): the visible device of this rank
};

// Finds out how this process was started and joins the other ranks. Refuses (Code::launch) when the
// launcher started several tasks of which each believes to be alone, and (Code::device) when two
// ranks of a host would share one GPU. At most once per process.
Result<std::unique_ptr<Collective>> launch(CollectiveOptions& options);

// True when this build can join ranks over MPI, NCCL.
[[nodiscard]] bool built_with_mpi();
[[nodiscard]] bool built_with_nccl();

}  // namespace fedqueue
