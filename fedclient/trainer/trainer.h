// Trains segments data-parallel over the ranks of one job.
//
// Rank 0 gives the orders: run() for each segment, finish() at the end. Every other rank calls
// follow(), which takes part in each segment until rank 0 finishes. Only rank 0 reads and writes
// files; models travel to the other ranks by broadcast.
//
//   rank 0:      create ─ run ─ write_update ─ run ─ … ─ finish
//   rank 1 … :   create ─ follow ───────────────────────┘
//
// Promises: the result does not depend on the number of ranks beyond rounding; the optimiser's
// state, the schedule and the position in the data are kept from one segment to the next; a stop is
// obeyed at the end of the step at hand, by all ranks at the same step; a rank that stalls ends the
// job (watchdog.h).
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/log.h"
#include "core/base/result.h"
#include "fedclient/collective/collective.h"
#include "fedclient/data/dataset.h"
#include "fedclient/recipe/training_settings.h"
#include "fedclient/trainer/network.h"
#include "fedclient/trainer/rate_search.h"

namespace fedqueue {

// What the facility decides.
struct TrainerOptions {
  TrainingSettings training;   // rank 0's values hold for all ranks, and the run's come first
  std::string device = "cpu";  // "cpu" or "cuda"
  int gpu_ordinal = 0;
  int threads = 0;         // per rank; 0 leaves it to OMP_NUM_THREADS
  int loader_threads = 1;  // per rank (data/loader.h)
  bool deterministic = false;
  std::int64_t bucket_bytes = 0;  // gradients summed together (network.h); rank 0's holds for all
  std::filesystem::path model_file;  // TorchScript, for runs that have one
  double watchdog_s = 180;           // 0: none
  double snapshot_s = 60;            // 0: none
  double progress_s = 10;            // between two progress lines
};

struct SegmentOrder {
  std::int64_t base_version = 0;
  std::int64_t local_steps = 0;
  double learning_rate = 0;
  // Read by rank 0 alone; empty: what load() took over before.
  std::filesystem::path model_file;
};

struct SegmentResult {
  std::int64_t steps_run = 0;
  // Median of the steps after the first five (of all if there are fewer), largest over the ranks.
  double seconds_per_step = 0;
  // Mean of the steps, largest over the ranks: how long they waited for their samples.
  double data_wait_seconds = 0;
  // Likewise: how long gradients were being summed, and for how much of it the step did nothing
  // else. Their difference is hidden behind the backward pass.
  double reduce_seconds = 0;
  double reduce_exposed_seconds = 0;
  double loss_mean = 0;      // over the steps run
  double learning_rate = 0;  // of the last step
  // Samples beyond which a larger batch gains little; absent with one rank, and while unknown.
  std::optional<double> noise_scale;
  std::int64_t samples = 0;  // seen, over all ranks
  double train_seconds = 0;
  bool stopped_early = false;
};

// Asked on rank 0 before each step: stop after this one?
using StopCheck = std::function<bool(std::int64_t steps_done)>;
// Called on rank 0 every `snapshot_s` seconds with what has been done so far; may call
// write_update(). Its time counts as no step's.
using SnapshotHook = std::function<void(const SegmentResult& so_far)>;

class Trainer {
 public:
  // The collective must outlive the trainer.
  static Result<std::unique_ptr<Trainer>> create(TrainerOptions options, Collective& collective,
                                                 Dataset&& dataset, Log log = {});
  ~Trainer();

  // Rank 0: other settings from the next segment on. Another seed begins the data anew. Fails when
  // a rank would have no samples in a batch.
  Status configure(const TrainingSettings& training);

  // Rank 0: takes over a model for the next segment; the file is not needed afterwards. On failure
  // the trainer is as it was. A model with control variates is trained with them; the facility's
  // own are in `controls_directory`, and all zero without one.
  Status load(const std::filesystem::path& model_file,
              const std::filesystem::path& controls_directory = {});
  // Rank 0, after load(): goes on, on all ranks, where the trainer was whose keep() wrote this.
  // On failure the trainer is as it was.
  Status resume(const std::filesystem::path& path);
  // Rank 0, after run() or within its snapshot hook: the optimiser's state and the places in the
  // schedule and the data.
  Status keep(const std::filesystem::path& path) const;
  // Whether the model at hand has control variates.
  [[nodiscard]] bool has_controls() const;

  // Rank 0. REQUIRES: a model, in the order or by load(). Zero steps are run when the stop check
  // says so at once. After a failure usable() tells whether another segment can follow.
  Result<SegmentResult> run(const SegmentOrder& order, const StopCheck& stop = {},
                            const SnapshotHook& snapshot = {});

  // Rank 0, after load(): looks for a learning rate, beginning with `start`. The model has moved
  // then: load() again before run().
  Result<RateSearch> find_rate(std::int64_t searches, double start);

  // False once a step failed on some rank: the ranks no longer agree where they are, and the job
  // must be aborted. A loss that is not finite is no such failure.
  [[nodiscard]] bool usable() const;

  // Rank 0, after run() or within its snapshot hook: the difference to the base, and what becomes
  // of the facility's control variates.
  Status write_update(const std::filesystem::path& path);
  // Rank 0, likewise: the model itself.
  Status write_model(const std::filesystem::path& path);

  // Rank 0: lets the other ranks return from follow().
  Status finish();
  // Every other rank: takes part until rank 0 finishes.
  Status follow();

 private:
  struct Impl;
  explicit Trainer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct EvaluationResult {
  double accuracy = 0;  // 0 … 1; of tokens those predicted rightly
  double loss = 0;      // mean over the samples, or the tokens
  std::int64_t samples = 0;
};

// Judges a model file on a dataset, in batches, in this process alone. The inputs are normalised as
// those of the training were.
Result<EvaluationResult> evaluate(const std::filesystem::path& model, const Dataset& dataset,
                                  const NetworkOptions& options = {},
                                  const Normalization& normalization = {});

// Writes the initial model of a run: a built-in architecture, freshly initialised, or the values in
// a TorchScript file; with what `weights` (safetensors) has of them instead.
struct ModelInitOptions {
  NetworkSpec spec;  // classes are the TorchScript file's own
  std::uint64_t seed = 1;
  std::filesystem::path model_file = {};
  std::filesystem::path weights = {};
};
struct InitialisedModel {
  NetworkSpec spec;
  std::int64_t parameters = 0;
  std::uint64_t bytes = 0;
  std::size_t tensors_taken = 0;  // from `weights`
};
Result<InitialisedModel> init_model(const ModelInitOptions& options,
                                    const std::filesystem::path& output);

}  // namespace fedqueue
