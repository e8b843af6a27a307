// MPI reports errors by codes here (MPI_ERRORS_RETURN) and never by ending the process, so that the
// reason reaches the user in our words. Counts are cut into chunks that fit an int.
//
// Where several nodes have several ranks each, floats are summed within each node, then between one
// leader of each, so that a number crosses the network once per node and not once per rank.
//
// Begun sums run on a thread of their own, which makes MPI's blocking calls: non-blocking ones
// would need that thread as well to move on, and Open MPI's are not tuned. It first waits for the
// other ranks by looking now and then, since a blocking call would take a core from the backward
// pass while it waits.
#include "fedclient/collective/mpi.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

#include "core/base/text.h"
#include "fedclient/collective/sum_queue.h"

namespace fedqueue {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 30;  // elements per call, below 2^31
constexpr std::chrono::microseconds kPatient(20'000);
constexpr std::chrono::microseconds kPrompt(200);
constexpr int kLooksWithoutPause = 100;  // of a wait that nothing else goes on beside

Error mpi_error(const char* attempted, int code) {
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {Code::rank_lost, std::string(attempted) + " over MPI: " + text.data(),
          "Another rank died or the network between the nodes failed; look at the job's log."};
}

Status check(const char* attempted, int code) {
  if (code == MPI_SUCCESS) return {};
  return mpi_error(attempted, code);
}

// The ranks of one node, and one rank of each node. Null where the sum is not made in two levels.
class NodeGroups {
 public:
  // REQUIRES: called by every rank.
  NodeGroups(MPI_Comm node, int rank) {
    int node_rank = 0;
    int node_size = 1;
    MPI_Comm_rank(node, &node_rank);
    MPI_Comm_size(node, &node_size);
    std::array<int, 2> extent = {node_size, node_rank == 0 ? 1 : 0};
    MPI_Allreduce(MPI_IN_PLACE, extent.data(), 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, extent.data() + 1, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    const auto [largest, nodes] = extent;
    if (largest == 1 || nodes == 1) return;
    leader_ = node_rank == 0;
    MPI_Comm_dup(node, &node_);
    MPI_Comm_split(MPI_COMM_WORLD, leader_ ? 0 : MPI_UNDEFINED, rank, &leaders_);
  }

  [[nodiscard]] bool used() const { return node_ != MPI_COMM_NULL; }

  int sum(float* data, int count) const {
    int code = leader_ ? MPI_Reduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, 0, node_)
                       : MPI_Reduce(data, nullptr, count, MPI_FLOAT, MPI_SUM, 0, node_);
    if (code == MPI_SUCCESS && leader_)
      code = MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, leaders_);
    if (code != MPI_SUCCESS) return code;
    return MPI_Bcast(data, count, MPI_FLOAT, 0, node_);
  }

 private:
  MPI_Comm node_ = MPI_COMM_NULL;
  MPI_Comm leaders_ = MPI_COMM_NULL;
  bool leader_ = false;
};

// The ranks that share memory with this one, or those that FEDQUEUE_RANKS_PER_NODE puts together.
MPI_Comm node_of(int rank, MPI_Comm host) {
  const char* declared = std::getenv("FEDQUEUE_RANKS_PER_NODE");
  const auto ranks = declared == nullptr ? std::nullopt : parse_integer(declared);
  MPI_Comm node = MPI_COMM_NULL;
  if (ranks && *ranks > 0) {
    MPI_Comm_split(MPI_COMM_WORLD, static_cast<int>(rank / *ranks), rank, &node);
  } else {
    MPI_Comm_dup(host, &node);
  }
  return node;
}

class MpiCollective final : public Collective {
 public:
  explicit MpiCollective(bool threads) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    std::array<char, MPI_MAX_PROCESSOR_NAME + 1> name{};
    int length = 0;
    MPI_Get_processor_name(name.data(), &length);
    host_ = name.data();
    MPI_Comm local = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &local);
    MPI_Comm_rank(local, &local_rank_);
    MPI_Comm_size(local, &local_size_);
    MPI_Comm node = node_of(rank_, local);
    groups_.emplace(node, rank_);
    MPI_Comm_free(&node);
    MPI_Comm_free(&local);
    if (!threads) return;
    queue_.emplace([this](float* data, std::size_t count, const std::atomic<bool>& awaited) {
      if (Status status = meet(awaited); !status) return status;
      return all_reduce_sum(data, count);
    });
  }
  ~MpiCollective() override {
    queue_.reset();
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }
  const std::string& host() const override { return host_; }
  const char* kind() const override { return "mpi"; }

  Status broadcast(void* data, std::size_t bytes, int root) override {
    auto* position = static_cast<char*>(data);
    for (std::size_t done = 0; done < bytes; done += kChunk) {
      const int count = static_cast<int>(std::min(kChunk, bytes - done));
      const int code = MPI_Bcast(position + done, count, MPI_BYTE, root, MPI_COMM_WORLD);
      if (code != MPI_SUCCESS) return mpi_error("broadcast", code);
    }
    return {};
  }

  Status broadcast_patiently(void* data, std::size_t bytes, int root) override {
    auto* position = static_cast<char*>(data);
    for (std::size_t done = 0; done < bytes; done += kChunk) {
      const int count = static_cast<int>(std::min(kChunk, bytes - done));
      MPI_Request request = MPI_REQUEST_NULL;
      const int code = MPI_Ibcast(position + done, count, MPI_BYTE, root, MPI_COMM_WORLD, &request);
      if (code != MPI_SUCCESS) return mpi_error("broadcast", code);
      if (Status status = poll("broadcast", request, kPatient); !status) return status;
    }
    return {};
  }

  Status all_reduce_sum(float* data, std::size_t count) override {
    return in_chunks(data, count, [this](float* part, int length) {
      if (groups_->used()) return groups_->sum(part, length);
      return MPI_Allreduce(MPI_IN_PLACE, part, length, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    });
  }
  Status all_reduce_sum(double* data, std::size_t count) override {
    return in_chunks(data, count, [](double* part, int length) {
      return MPI_Allreduce(MPI_IN_PLACE, part, length, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    });
  }
  Result<std::int64_t> minimum(std::int64_t value) override { return extreme(value, MPI_MIN); }
  Result<std::int64_t> maximum(std::int64_t value) override { return extreme(value, MPI_MAX); }
  Status barrier() override {
    return check("wait for the other ranks", MPI_Barrier(MPI_COMM_WORLD));
  }

  // Without threads in MPI a sum is done before the caller goes on.
  Status begin_sum(float* data, std::size_t count) override {
    if (!queue_) return all_reduce_sum(data, count);
    queue_->begin(data, count);
    return {};
  }
  Status finish_sums() override { return queue_ ? queue_->finish() : Status(); }
  SumSeconds sum_seconds() const override { return queue_ ? queue_->seconds() : SumSeconds(); }

  bool device_buffers() const override { return false; }
  Status begin_sum_device(float*, std::size_t, void*) override { return no_device(); }
  Status finish_sums_device(void*) override { return no_device(); }

  void abort(int exit_code) noexcept override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    ::_exit(exit_code);
  }

 private:
  static Error no_device() {
    return {Code::device, "reduce GPU memory over MPI: this build has no NCCL",
            "Build with -DFEDQUEUE_WITH_CUDA=ON, or train with --device cpu."};
  }

  template <typename T, typename Sum>
  static Status in_chunks(T* data, std::size_t count, const Sum& sum) {
    for (std::size_t done = 0; done < count; done += kChunk) {
      const int code = sum(data + done, static_cast<int>(std::min(kChunk, count - done)));
      if (code != MPI_SUCCESS) return mpi_error("sum gradients", code);
    }
    return {};
  }

  // Until every rank is here.
  static Status meet(const std::atomic<bool>& awaited) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = MPI_Ibarrier(MPI_COMM_WORLD, &request);
    if (code != MPI_SUCCESS) return mpi_error("sum gradients", code);
    return poll("sum gradients", request, kPrompt, &awaited);
  }

  static Result<std::int64_t> extreme(std::int64_t value, MPI_Op operation) {
    const int code = MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, operation, MPI_COMM_WORLD);
    if (code != MPI_SUCCESS) return mpi_error("compare values", code);
    return value;
  }

  // The pauses grow, so that short waits stay short and long ones cost nothing.
  static Status poll(const char* attempted, MPI_Request& request,
                     std::chrono::microseconds longest_pause,
                     const std::atomic<bool>* awaited = nullptr) {
    std::chrono::microseconds pause(50);
    for (int looks = 0;; ++looks) {
      int done = 0;
      const int code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (code != MPI_SUCCESS) return mpi_error(attempted, code);
      if (done != 0) return {};
      if (awaited != nullptr && *awaited && looks < kLooksWithoutPause) {
        std::this_thread::yield();
        continue;
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, longest_pause);
    }
  }

  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  std::string host_;
  std::optional<NodeGroups> groups_;
  std::optional<SumQueue> queue_;
};

}  // namespace

bool mpi_is_open_mpi() {
#ifdef OPEN_MPI
  return true;
#else
  return false;
#endif
}

Result<std::unique_ptr<Collective>> make_mpi_collective() {
  int provided = MPI_THREAD_SINGLE;
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (code != MPI_SUCCESS || provided < MPI_THREAD_FUNNELED) {
    return Error{Code::launch, "start MPI: MPI_Init_thread failed or has no FUNNELED threads",
                 "Start the job with srun --mpi=pmix or mpirun, with the MPI this was built with."};
  }
  return std::unique_ptr<Collective>(
      std::make_unique<MpiCollective>(provided >= MPI_THREAD_SERIALIZED));
}

}  // namespace fedqueue
