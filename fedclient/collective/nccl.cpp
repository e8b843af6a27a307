#include "fedclient/collective/nccl.h"

#include <cuda_runtime.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

namespace fedqueue {
namespace {

Status check(const char* attempted, cudaError_t code) {
  if (code == cudaSuccess) return {};
  return Error{Code::device, std::string(attempted) + ": " + cudaGetErrorString(code),
               "Check the GPUs of this node with nvidia-smi, and --gres or --gpus of the job."};
}

Status check(const char* attempted, ncclResult_t code) {
  if (code == ncclSuccess) return {};
  return Error{Code::rank_lost, std::string(attempted) + " over NCCL: " + ncclGetErrorString(code),
               "Run again with NCCL_DEBUG=INFO to see the interface and the peer that failed."};
}

// What one rank tells the others about its device.
struct DeviceCard {
  std::array<char, 64> host{};
  std::array<char, 16> uuid{};
  std::int32_t ordinal = -1;
  std::int32_t visible = 0;
};

std::string uuid_text(const std::array<char, 16>& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    std::array<char, 3> hex{};
    std::snprintf(hex.data(), hex.size(), "%02x", static_cast<unsigned char>(uuid[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += hex.data();
  }
  return text;
}

// A rank that sees one device was given it by the launcher (--gpus-per-task); a rank that sees
// several takes the one at its place on the host.
DeviceCard describe_device(const Collective& host) {
  DeviceCard card;
  std::snprintf(card.host.data(), card.host.size(), "%s", host.host().c_str());
  int visible = 0;
  if (cudaGetDeviceCount(&visible) != cudaSuccess || visible == 0) return card;
  card.visible = visible;
  const int ordinal = visible == 1 ? 0 : host.local_rank();
  if (ordinal >= visible) return card;
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, ordinal) != cudaSuccess) return card;
  card.ordinal = ordinal;
  std::memcpy(card.uuid.data(), properties.uuid.bytes, card.uuid.size());
  return card;
}

// Every rank's card, in rank order.
Result<std::vector<DeviceCard>> exchange(Collective& host, const DeviceCard& own) {
  std::vector<DeviceCard> cards(static_cast<std::size_t>(host.size()));
  cards[static_cast<std::size_t>(host.rank())] = own;
  for (int rank = 0; rank < host.size(); ++rank) {
    DeviceCard& card = cards[static_cast<std::size_t>(rank)];
    if (Status status = host.broadcast(&card, sizeof card, rank); !status) return status.error();
  }
  return cards;
}

Status check_devices(const std::vector<DeviceCard>& cards) {
  for (std::size_t a = 0; a < cards.size(); ++a) {
    const std::string place = "rank " + std::to_string(a) + " on " + cards[a].host.data();
    if (cards[a].ordinal < 0) {
      return Error{Code::device,
                   "choose a GPU: " + place + " has no device of its own (" +
                       std::to_string(cards[a].visible) + " visible)",
                   "Ask for one GPU per task (--gpus-per-task=1), or train with --device cpu."};
    }
    for (std::size_t b = 0; b < a; ++b) {
      if (cards[a].uuid == cards[b].uuid && cards[a].host == cards[b].host) {
        return Error{Code::device,
                     "choose a GPU: rank " + std::to_string(b) + " and " + place + " would share " +
                         uuid_text(cards[a].uuid),
                     "Ask for one GPU per task (--gpus-per-task=1) or start fewer ranks per node."};
      }
    }
  }
  return {};
}

class NcclCollective final : public Collective {
 public:
  NcclCollective(std::unique_ptr<Collective> host, ncclComm_t communicator)
      : host_(std::move(host)), communicator_(communicator) {}
  ~NcclCollective() override {
    ncclCommDestroy(communicator_);
    for (cudaEvent_t event : {complete_, begun_, computed_, summed_}) {
      if (event != nullptr) cudaEventDestroy(event);
    }
    if (sums_ != nullptr) cudaStreamDestroy(sums_);
  }

  // The stream of the sums has the higher priority, so that the backward pass does not hold them
  // up.
  Status prepare() {
    int least = 0;
    int greatest = 0;
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    cudaError_t code = cudaStreamCreateWithPriority(&sums_, cudaStreamNonBlocking, greatest);
    if (code == cudaSuccess) code = cudaEventCreateWithFlags(&complete_, cudaEventDisableTiming);
    for (cudaEvent_t* timed : {&begun_, &computed_, &summed_}) {
      if (code == cudaSuccess) code = cudaEventCreate(timed);
    }
    return check("make a stream for the sums", code);
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  int local_rank() const override { return host_->local_rank(); }
  int local_size() const override { return host_->local_size(); }
  const std::string& host() const override { return host_->host(); }
  const char* kind() const override { return "nccl"; }

  Status broadcast(void* data, std::size_t bytes, int root) override {
    return host_->broadcast(data, bytes, root);
  }
  Status broadcast_patiently(void* data, std::size_t bytes, int root) override {
    return host_->broadcast_patiently(data, bytes, root);
  }
  Status all_reduce_sum(float* data, std::size_t count) override {
    return host_->all_reduce_sum(data, count);
  }
  Status all_reduce_sum(double* data, std::size_t count) override {
    return host_->all_reduce_sum(data, count);
  }
  Result<std::int64_t> minimum(std::int64_t value) override { return host_->minimum(value); }
  Result<std::int64_t> maximum(std::int64_t value) override { return host_->maximum(value); }
  Status barrier() override { return host_->barrier(); }
  Status begin_sum(float* data, std::size_t count) override {
    return host_->begin_sum(data, count);
  }
  Status finish_sums() override { return host_->finish_sums(); }
  SumSeconds sum_seconds() const override {
    take_times();
    const SumSeconds host = host_->sum_seconds();
    return {seconds_.under_way + host.under_way, seconds_.exposed + host.exposed};
  }

  bool device_buffers() const override { return true; }

  // Events order the two streams without the processor: a range is summed once what is on `stream`
  // now has computed it.
  Status begin_sum_device(float* data, std::size_t count, void* stream) override {
    take_times();
    cudaError_t code = cudaEventRecord(complete_, static_cast<cudaStream_t>(stream));
    if (code == cudaSuccess) code = cudaStreamWaitEvent(sums_, complete_, 0);
    if (code == cudaSuccess && !under_way_) code = cudaEventRecord(begun_, sums_);
    if (code != cudaSuccess) return check("sum gradients", code);
    under_way_ = true;
    return check("sum gradients",
                 ncclAllReduce(data, data, count, ncclFloat, ncclSum, communicator_, sums_));
  }
  Status finish_sums_device(void* stream) override {
    if (!under_way_) return {};
    under_way_ = false;
    cudaError_t code = cudaEventRecord(computed_, static_cast<cudaStream_t>(stream));
    if (code == cudaSuccess) code = cudaEventRecord(summed_, sums_);
    if (code == cudaSuccess)
      code = cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), summed_, 0);
    times_pending_ = code == cudaSuccess;
    return check("sum gradients", code);
  }

  void abort(int exit_code) noexcept override {
    // The host library kills the peers; NCCL's own abort only frees kernels that wait for them.
    ncclCommAbort(communicator_);
    host_->abort(exit_code);
  }

 private:
  // Of the last sums, before their events are used again; waits until they are done.
  void take_times() const {
    if (!std::exchange(times_pending_, false)) return;
    float under_way_ms = 0;
    float exposed_ms = 0;  // negative when the sums were done first
    if (cudaEventSynchronize(computed_) != cudaSuccess ||
        cudaEventSynchronize(summed_) != cudaSuccess ||
        cudaEventElapsedTime(&under_way_ms, begun_, summed_) != cudaSuccess ||
        cudaEventElapsedTime(&exposed_ms, computed_, summed_) != cudaSuccess)
      return;
    seconds_.under_way += under_way_ms * 1e-3;
    seconds_.exposed += std::max(exposed_ms, 0.0f) * 1e-3;
  }

  std::unique_ptr<Collective> host_;
  ncclComm_t communicator_;
  cudaStream_t sums_ = nullptr;
  cudaEvent_t complete_ = nullptr;  // a range is
  cudaEvent_t begun_ = nullptr;     // the first sum
  cudaEvent_t computed_ = nullptr;  // everything
  cudaEvent_t summed_ = nullptr;    // everything
  bool under_way_ = false;
  mutable bool times_pending_ = false;
  mutable SumSeconds seconds_;
};

}  // namespace

Result<std::unique_ptr<Collective>> make_nccl_collective(std::unique_ptr<Collective> host,
                                                         int& gpu_ordinal) {
  const DeviceCard own = describe_device(*host);
  Result<std::vector<DeviceCard>> cards = exchange(*host, own);
  if (!cards) return cards.error();
  if (Status status = check_devices(*cards); !status) return status.error();
  gpu_ordinal = own.ordinal;
  if (Status status = check("select the GPU", cudaSetDevice(gpu_ordinal)); !status) {
    return status.error();
  }
  std::fprintf(stderr, "rank %d on %s: device %d of %d, %s\n", host->rank(), own.host.data(),
               own.ordinal, own.visible, uuid_text(own.uuid).c_str());
  ncclUniqueId id{};
  std::int64_t made = 1;
  if (host->rank() == 0) made = ncclGetUniqueId(&id) == ncclSuccess ? 1 : 0;
  if (Status status = host->broadcast(&id, sizeof id, 0); !status) return status.error();
  const Result<std::int64_t> all_made = host->minimum(made);
  if (!all_made) return all_made.error();
  if (*all_made == 0) {
    return Error{Code::launch, "start NCCL: rank 0 could not make the communicator's id",
                 "Run again with NCCL_DEBUG=INFO to see why."};
  }
  ncclComm_t communicator = nullptr;
  if (Status status = check("join the other ranks",
                            ncclCommInitRank(&communicator, host->size(), id, host->rank()));
      !status) {
    return status.error();
  }
  auto collective = std::make_unique<NcclCollective>(std::move(host), communicator);
  if (Status status = collective->prepare(); !status) return status.error();
  return std::unique_ptr<Collective>(std::move(collective));
}

}  // namespace fedqueue
