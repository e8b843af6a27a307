// MPI reports errors by codes here (MPI_ERRORS_RETURN) and never by ending the process, so that the
// reason reaches the user in our words. Counts are cut into chunks that fit an int.
#include "fedclient/collective/mpi.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

namespace fedqueue {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 30;  // elements per call, below 2^31
constexpr auto kPollLongest = std::chrono::milliseconds(20);

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

class MpiCollective final : public Collective {
 public:
  MpiCollective() {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    std::array<char, MPI_MAX_PROCESSOR_NAME + 1> name{};
    int length = 0;
    MPI_Get_processor_name(name.data(), &length);
    host_ = name.data();
    MPI_Comm local = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &local);
    if (local != MPI_COMM_NULL) {
      MPI_Comm_rank(local, &local_rank_);
      MPI_Comm_size(local, &local_size_);
      MPI_Comm_free(&local);
    }
  }
  ~MpiCollective() override { MPI_Finalize(); }

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
      if (Status status = poll(request); !status) return status;
    }
    return {};
  }

  Status all_reduce_sum(float* data, std::size_t count) override {
    return sum(data, count, MPI_FLOAT);
  }
  Status all_reduce_sum(double* data, std::size_t count) override {
    return sum(data, count, MPI_DOUBLE);
  }
  Result<std::int64_t> minimum(std::int64_t value) override { return extreme(value, MPI_MIN); }
  Result<std::int64_t> maximum(std::int64_t value) override { return extreme(value, MPI_MAX); }
  Status barrier() override {
    return check("wait for the other ranks", MPI_Barrier(MPI_COMM_WORLD));
  }

  bool device_buffers() const override { return false; }
  Status broadcast_device(void*, std::size_t, int, void*) override { return no_device(); }
  Status all_reduce_sum_device(float*, std::size_t, void*) override { return no_device(); }

  void abort(int exit_code) noexcept override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    ::_exit(exit_code);
  }

 private:
  static Error no_device() {
    return {Code::device, "reduce GPU memory over MPI: this build has no NCCL",
            "Build with -DFEDQUEUE_WITH_CUDA=ON, or train with --device cpu."};
  }

  template <typename T>
  static Status sum(T* data, std::size_t count, MPI_Datatype type) {
    for (std::size_t done = 0; done < count; done += kChunk) {
      const int part = static_cast<int>(std::min(kChunk, count - done));
      const int code =
          MPI_Allreduce(MPI_IN_PLACE, data + done, part, type, MPI_SUM, MPI_COMM_WORLD);
      if (code != MPI_SUCCESS) return mpi_error("sum gradients", code);
    }
    return {};
  }

  static Result<std::int64_t> extreme(std::int64_t value, MPI_Op operation) {
    const int code = MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, operation, MPI_COMM_WORLD);
    if (code != MPI_SUCCESS) return mpi_error("compare values", code);
    return value;
  }

  // The pauses grow, so that short waits stay short and long ones cost nothing.
  static Status poll(MPI_Request& request) {
    std::chrono::microseconds pause(50);
    for (;;) {
      int done = 0;
      const int code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (code != MPI_SUCCESS) return mpi_error("broadcast", code);
      if (done != 0) return {};
      std::this_thread::sleep_for(pause);
      pause = std::min<std::chrono::microseconds>(pause * 2, kPollLongest);
    }
  }

  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  std::string host_;
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
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  if (code != MPI_SUCCESS || provided < MPI_THREAD_FUNNELED) {
    return Error{Code::launch, "start MPI: MPI_Init_thread failed or has no FUNNELED threads",
                 "Start the job with srun --mpi=pmix or mpirun, with the MPI this was built with."};
  }
  return std::unique_ptr<Collective>(std::make_unique<MpiCollective>());
}

}  // namespace fedqueue
