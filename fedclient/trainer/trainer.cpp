#include "fedclient/trainer/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "fedclient/collective/watchdog.h"
#include "fedclient/data/augment.h"
#include "fedclient/recipe/noise_scale.h"
#include "fedclient/trainer/announcement.h"
#include "fedclient/trainer/checks.h"
#include "fedclient/trainer/control_variates.h"
#include "fedclient/trainer/model_file.h"
#include "fedclient/trainer/network.h"
#include "fedclient/trainer/sample_stream.h"
#include "fedclient/trainer/trainer_state.h"

namespace fedqueue {
namespace {

using Clock = std::chrono::steady_clock;
// How noisy gradients are changes slowly, and to look costs two passes over them.
constexpr std::int64_t kStepsBetweenNoise = 10;
constexpr std::size_t kStepsLeftOut = 5;  // caches and allocators are cold in the first steps

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median_after_warm_up(std::vector<double> seconds) {
  if (seconds.empty()) return 0;
  if (seconds.size() > kStepsLeftOut) {
    seconds.erase(seconds.begin(), seconds.begin() + kStepsLeftOut);
  }
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

}  // namespace

struct Trainer::Impl {
  Impl(TrainerOptions options_, Collective& collective_, Dataset&& dataset_, Log log_)
      : options(std::move(options_)),
        collective(collective_),
        dataset(std::move(dataset_)),
        log(std::move(log_)),
        training(options.training),
        stream(dataset, collective, options.loader_threads),
        watchdog(collective, options.watchdog_s) {}

  Status build(const NetworkSpec& spec);
  void adopt(const TrainingSettings& settings);
  Result<SegmentResult> segment(const Announcement& order, const StopCheck& stop,
                                const SnapshotHook& snapshot);
  Status prepare(const Announcement& order);
  Status share_resumed();
  Status share_correction();
  Status all_steps(const Announcement& order, const StopCheck& stop, const SnapshotHook& snapshot,
                   SegmentResult& result, std::vector<double>& step_seconds);
  Status share_model();
  Result<BatchTotals> gradients(bool wish_to_stop, bool measured);
  Result<BatchTotals> step(double learning_rate, bool wish_to_stop);
  Result<RateSearch> search(const Announcement& order);
  Status look_at_noise();
  [[nodiscard]] LearningRateSettings rates() const;
  // Of the schedule's beginning, and now.
  [[nodiscard]] std::int64_t first_batch() const {
    return training.global_batch(collective.size());
  }
  [[nodiscard]] std::int64_t batch() const { return first_batch() * growth; }
  Status average_buffers();
  Result<std::vector<std::byte>> state() const;
  void report(const SegmentResult& so_far, double step_seconds, std::int64_t steps_wanted);

  TrainerOptions options;
  Collective& collective;
  Dataset dataset;
  Log log;
  TrainingSettings training;
  SampleStream stream;  // begins with the network: a model decides how tokens are cut
  Watchdog watchdog;
  std::unique_ptr<Network> network;
  std::map<std::string, std::string> metadata;  // of the base
  std::vector<std::byte> base;
  std::optional<ControlVariates> controls;  // of the base, on rank 0
  bool correct = false;                     // this segment is trained with control variates
  double learning_rate_sum = 0;             // of the segment
  double learning_rate = 0;                 // of the last step
  std::int64_t steps_in_job = 0;
  LearningRateState schedule;
  std::int64_t growth = 1;  // of the batch, by the schedule
  NoiseScale noise;
  std::optional<TrainerState> resumed;  // rank 0: not yet shared
  bool usable = true;
  Clock::time_point reported_at{};
};

Status Trainer::Impl::build(const NetworkSpec& spec) {
  if (network && network->spec() == spec) return {};
  if (network) {
    return Error{Code::model_mismatch,
                 "train: the model changed from " + network->spec().model + " to " + spec.model +
                     " within one job",
                 "A run keeps one architecture; look at the server's log."};
  }
  if (Status status = dataset.cut_for(spec.input); !status) return status;
  if (Status status = check_batch(training, collective.size(), dataset); !status) return status;
  if (Status status = check_fit("train " + spec.model, spec, dataset); !status) return status;
  NetworkOptions network_options;
  network_options.device = options.device;
  network_options.gpu_ordinal = options.gpu_ordinal;
  network_options.threads = options.threads;
  network_options.deterministic = options.deterministic;
  network_options.bucket_bytes = options.bucket_bytes;
  network_options.model_file = options.model_file;
  Result<std::unique_ptr<Network>> built = Network::create(spec, network_options);
  if (!built) return built.error();
  network = std::move(*built);
  stream.use(training, batch());
  return {};
}

// The position in the data is kept unless the order of the samples itself changes.
void Trainer::Impl::adopt(const TrainingSettings& settings) {
  if (settings == training) return;
  training = settings;
  if (network) stream.use(training, batch());
}

// Every rank ends with rank 0's parameters and buffers. `base` is filled on rank 0 before.
Status Trainer::Impl::share_model() {
  base.resize(network->manifest().data_bytes);
  if (Status status = collective.broadcast(base.data(), base.size(), 0); !status) return status;
  return network->load(base);
}

// The largest batch that growth leads to: by default a tenth of the dataset, and never more than
// it.
LearningRateSettings Trainer::Impl::rates() const {
  LearningRateSettings settings = training.learning_rate;
  const std::int64_t samples = dataset.samples();
  settings.batch_max =
      std::min(settings.batch_max == 0 ? samples / 10 : settings.batch_max, samples);
  return settings;
}

// Of the next batch, summed over the ranks. The sums go on while the backward pass does.
Result<BatchTotals> Trainer::Impl::gradients(bool wish_to_stop, bool measured) {
  const Result<Batch> shard = stream.next();
  if (!shard) return shard.error();
  Pass pass;
  pass.global_batch = batch();
  pass.wish_to_stop = wish_to_stop;
  pass.keep_losses = stream.by_losses();
  pass.micro_batch = training.micro_batch;
  pass.measured_ranks = measured ? collective.size() : 0;
  bool on_device = false;
  const auto begin_sum = [&](const GradientRange& range) {
    on_device = range.on_device;
    return on_device ? collective.begin_sum_device(range.data, range.count, nullptr)
                     : collective.begin_sum(range.data, range.count);
  };
  if (Status status = network->accumulate(*shard, pass, begin_sum); !status) return status.error();
  const Status summed =
      on_device ? collective.finish_sums_device(nullptr) : collective.finish_sums();
  if (!summed) return summed.error();
  if (stream.by_losses()) {
    const Result<std::vector<float>> losses = network->sample_losses();
    if (!losses) return losses.error();
    if (Status status = stream.remember(*losses); !status) return status.error();
  }
  return network->totals();
}

Result<BatchTotals> Trainer::Impl::step(double segment_rate, bool wish_to_stop) {
  const LearningRateSettings rate_settings = rates();
  growth = batch_multiple(schedule, rate_settings);
  stream.change_batch(batch());
  const bool measured =
      collective.size() > 1 && (training.adascale || steps_in_job % kStepsBetweenNoise == 0);
  Result<BatchTotals> totals = gradients(wish_to_stop, measured);
  if (!totals) return totals;
  if (measured) {
    if (Status status = look_at_noise(); !status) return status.error();
  }
  const double gain = training.adascale ? noise.gain(collective.size()) : 1;
  learning_rate = segment_rate * gain * multiplier(schedule, rate_settings);
  const LocalStep local{training.optimizer, learning_rate, training.proximal, correct};
  if (Status status = network->apply(local); !status) return status.error();
  advance(schedule, gain * static_cast<double>(growth));
  observe_loss(schedule, rate_settings, totals->loss_mean,
               std::max<std::int64_t>(dataset.samples() / batch(), 1), stream.order_seed());
  ++steps_in_job;
  learning_rate_sum += learning_rate;
  return totals;
}

// Every rank sees the same sums, and so the same noise scale.
Status Trainer::Impl::look_at_noise() {
  const Result<GradientSquares> squares = network->squares();
  if (!squares) return squares.error();
  const auto global = static_cast<double>(batch());
  noise.add({squares->rank_mean, squares->global, global / collective.size(), global});
  return {};
}

// Running statistics were gathered from each rank's own shards; their mean stands for the batch.
Status Trainer::Impl::average_buffers() {
  if (collective.size() == 1) return {};
  std::vector<const tensor::TensorInfo*> buffers;
  for (const tensor::TensorInfo& info : network->manifest().tensors) {
    if (network->manifest().is_buffer(info.name)) buffers.push_back(&info);
  }
  if (buffers.empty()) return {};
  Result<std::vector<std::byte>> packed = state();
  if (!packed) return packed.error();
  std::vector<float> values;
  for (const tensor::TensorInfo* info : buffers) {
    const std::size_t at = values.size();
    values.resize(at + info->elements());
    std::memcpy(values.data() + at, packed->data() + info->begin, info->bytes());
  }
  if (Status status = collective.all_reduce_sum(values.data(), values.size()); !status) {
    return status;
  }
  std::size_t at = 0;
  for (float& value : values) value /= static_cast<float>(collective.size());
  for (const tensor::TensorInfo* info : buffers) {
    std::memcpy(packed->data() + info->begin, values.data() + at, info->bytes());
    at += info->elements();
  }
  return network->load(*packed);
}

Result<std::vector<std::byte>> Trainer::Impl::state() const {
  std::vector<std::byte> packed(network->manifest().data_bytes);
  if (Status status = network->store(packed); !status) return status.error();
  return packed;
}

void Trainer::Impl::report(const SegmentResult& so_far, double step_seconds,
                           std::int64_t steps_wanted) {
  if (collective.rank() != 0 || seconds_since(reported_at) < options.progress_s) return;
  reported_at = Clock::now();
  log.info("training",
           {{"step", so_far.steps_run},
            {"of", steps_wanted},
            {"loss", so_far.loss_mean},
            {"learning_rate", so_far.learning_rate},
            {"samples_per_second", static_cast<double>(batch()) / std::max(step_seconds, 1e-9)}});
}

// Every rank ends with the architecture and the base, or all with an error.
Status Trainer::Impl::prepare(const Announcement& order) {
  options.bucket_bytes = order.bucket_bytes;
  // A rank that cannot build the model must not leave the others waiting for it.
  const Status built = build(spec_of(order));
  const Result<std::int64_t> all_built = collective.minimum(built ? 1 : 0);
  if (!built) return built;
  if (!all_built) return all_built.error();
  if (*all_built == 0) {
    return Error{Code::launch, "train: another rank could not build the model",
                 "Its own message is in the job's log."};
  }
  if (Status status = share_model(); !status) return status;
  if (training.proximal != 0) network->set_anchor();
  correct = order.controls != 0;
  learning_rate_sum = 0;
  if (order.resumed != 0) {
    if (Status status = share_resumed(); !status) return status;
  }
  change_batch(schedule, training.learning_rate, first_batch());
  return correct ? share_correction() : Status();
}

// Every rank ends with what rank 0 read.
Status Trainer::Impl::share_resumed() {
  TrainerState state = std::exchange(resumed, std::nullopt).value_or(TrainerState());
  if (Status status = share(state, collective); !status) return status;
  schedule = state.schedule;
  stream.go_to(std::move(state.data));
  return network->set_optimizer_state(state.optimizer);
}

// Every rank ends with rank 0's c − c_k.
Status Trainer::Impl::share_correction() {
  const Result<tensor::Manifest> layout = tensor::controls_of(network->manifest());
  if (!layout) return layout.error();
  std::vector<float> correction(layout->data_bytes / sizeof(float));
  if (collective.rank() == 0) correction = controls->correction();
  if (Status status = collective.broadcast(correction.data(), layout->data_bytes, 0); !status) {
    return status;
  }
  return network->set_correction(*layout, correction);
}

Status Trainer::Impl::all_steps(const Announcement& order, const StopCheck& stop,
                                const SnapshotHook& snapshot, SegmentResult& result,
                                std::vector<double>& step_seconds) {
  double loss_sum = 0;
  const Clock::time_point started = Clock::now();
  Clock::time_point snapshot_at = started;
  while (result.steps_run < order.local_steps && !result.stopped_early) {
    const Clock::time_point step_started = Clock::now();
    const bool last = result.steps_run + 1 == order.local_steps;
    const bool wish_to_stop = !last && stop && stop(result.steps_run);
    Result<BatchTotals> totals = step(order.learning_rate, wish_to_stop);
    if (!totals) {
      network->reset_optimizer();
      if (totals.error().code != Code::not_finite) return totals.error();
      return within("step " + std::to_string(result.steps_run + 1) + " of " +
                        std::to_string(order.local_steps),
                    totals.error());
    }
    step_seconds.push_back(seconds_since(step_started));
    ++result.steps_run;
    watchdog.mark(result.steps_run);
    result.samples += totals->samples;
    loss_sum += totals->loss_mean;
    result.loss_mean = loss_sum / static_cast<double>(result.steps_run);
    result.learning_rate = learning_rate;
    result.noise_scale = noise.samples();
    result.stopped_early = totals->stop;
    result.train_seconds = seconds_since(started);
    report(result, step_seconds.back(), order.local_steps);
    if (snapshot && options.snapshot_s > 0 && seconds_since(snapshot_at) >= options.snapshot_s) {
      result.seconds_per_step = median_after_warm_up(step_seconds);
      snapshot(result);
      snapshot_at = Clock::now();
    }
  }
  return {};
}

Result<SegmentResult> Trainer::Impl::segment(const Announcement& order, const StopCheck& stop,
                                             const SnapshotHook& snapshot) {
  watchdog.watch("training from version " + std::to_string(order.base_version));
  struct Rest {
    Watchdog& watchdog;
    ~Rest() { watchdog.rest(); }
  } rest{watchdog};
  if (Status status = prepare(order); !status) return status.error();
  SegmentResult result;
  std::vector<double> step_seconds;
  const double waited = stream.wait_seconds();
  const SumSeconds summed = collective.sum_seconds();
  if (Status status = all_steps(order, stop, snapshot, result, step_seconds); !status) {
    return status.error();
  }
  const double wait_seconds = stream.wait_seconds() - waited;
  if (Status status = average_buffers(); !status) return status.error();
  const SumSeconds sums = collective.sum_seconds();
  const auto steps = static_cast<double>(std::max<std::int64_t>(result.steps_run, 1));
  result.seconds_per_step = median_after_warm_up(std::move(step_seconds));
  result.data_wait_seconds = wait_seconds / steps;
  result.reduce_seconds = (sums.under_way - summed.under_way) / steps;
  result.reduce_exposed_seconds = (sums.exposed - summed.exposed) / steps;
  for (double* seconds : {&result.seconds_per_step, &result.data_wait_seconds,
                          &result.reduce_seconds, &result.reduce_exposed_seconds}) {
    const Result<std::int64_t> nanoseconds = collective.maximum(std::llround(*seconds * 1e9));
    if (!nanoseconds) return nanoseconds.error();
    *seconds = static_cast<double>(*nanoseconds) * 1e-9;
  }
  return result;
}

Result<RateSearch> Trainer::Impl::search(const Announcement& order) {
  if (Status status = prepare(order); !status) return status.error();
  LocalStep local;
  local.optimizer = training.optimizer;
  return search_rate(
      *network, collective, [this] { return gradients(false, false); }, local, order.searches,
      order.learning_rate);
}

Trainer::Trainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Trainer::~Trainer() = default;

Result<std::unique_ptr<Trainer>> Trainer::create(TrainerOptions options, Collective& collective,
                                                 Dataset&& dataset, Log log) {
  if (Status status = check_start(options.training, collective.size(), dataset); !status)
    return status.error();
  return std::unique_ptr<Trainer>(new Trainer(
      std::make_unique<Impl>(std::move(options), collective, std::move(dataset), std::move(log))));
}

Status Trainer::configure(const TrainingSettings& training) {
  if (Status status = check_start(training, impl_->collective.size(), impl_->dataset); !status)
    return status;
  impl_->adopt(training);
  return {};
}

Status Trainer::load(const std::filesystem::path& model_file,
                     const std::filesystem::path& controls_directory) {
  const Result<tensor::Reader> reader = tensor::Reader::open(model_file);
  if (!reader) return reader.error();
  const tensor::Manifest& manifest = reader->manifest();
  Result<NetworkSpec> spec = spec_from_metadata(manifest.metadata);
  if (!spec) return spec.error();
  if (Status status = impl_->build(*spec); !status) return status;
  Result<std::vector<std::byte>> base = read_state(model_file, impl_->network->manifest());
  if (!base) return base.error();
  std::optional<ControlVariates> controls;
  if (tensor::has_controls(manifest)) {
    Result<ControlVariates> loaded =
        ControlVariates::load(*reader, impl_->network->manifest(), controls_directory);
    if (!loaded) return loaded.error();
    controls = std::move(*loaded);
  }
  impl_->base = std::move(*base);
  impl_->controls = std::move(controls);
  impl_->metadata = manifest.metadata;
  return {};
}

Status Trainer::resume(const std::filesystem::path& path) {
  FEDQUEUE_ASSERT(impl_->network);
  Result<TrainerState> state = read_trainer_state(path, impl_->network->ranges());
  if (!state) return state.error();
  impl_->resumed = std::move(*state);
  return {};
}

Status Trainer::keep(const std::filesystem::path& path) const {
  Result<OptimizerState> optimizer = impl_->network->optimizer_state();
  if (!optimizer) return optimizer.error();
  TrainerState state;
  state.optimizer = std::move(*optimizer);
  state.schedule = impl_->schedule;
  state.data = impl_->stream.place();
  return write_trainer_state(path, state, impl_->network->ranges());
}

bool Trainer::has_controls() const { return impl_->controls.has_value(); }

bool Trainer::usable() const { return impl_->usable; }

Result<SegmentResult> Trainer::run(const SegmentOrder& order, const StopCheck& stop,
                                   const SnapshotHook& snapshot) {
  FEDQUEUE_ASSERT(impl_->collective.rank() == 0);
  if (order.local_steps < 1 || !std::isfinite(order.learning_rate) || order.learning_rate < 0) {
    return Error{Code::usage,
                 "train: " + std::to_string(order.local_steps) + " steps at learning rate " +
                     std::to_string(order.learning_rate) + " make no segment",
                 "The server asked for this; look at its t_sync and lr_base."};
  }
  if (stop && stop(0)) {
    SegmentResult nothing;
    nothing.stopped_early = true;
    return nothing;
  }
  // Everything that can go wrong on rank 0 alone goes wrong before the others are told to start.
  if (!order.model_file.empty()) {
    if (Status status = load(order.model_file); !status) return status.error();
  }
  FEDQUEUE_ASSERT(impl_->network && !impl_->base.empty());
  if (impl_->controls) {
    if (Status status = check_controls(impl_->training); !status) return status.error();
  }

  Announcement announcement = announce(impl_->network->spec(), order, impl_->training);
  announcement.bucket_bytes = impl_->options.bucket_bytes;
  announcement.controls = impl_->controls ? 1 : 0;
  announcement.resumed = impl_->resumed ? 1 : 0;
  if (Status status = impl_->collective.broadcast_patiently(&announcement, sizeof announcement, 0);
      !status) {
    return status.error();
  }
  Result<SegmentResult> result = impl_->segment(announcement, stop, snapshot);
  if (!result && result.error().code != Code::not_finite) impl_->usable = false;
  return result;
}

Result<RateSearch> Trainer::find_rate(std::int64_t searches, double start) {
  FEDQUEUE_ASSERT(impl_->collective.rank() == 0 && impl_->network && searches > 0 && start > 0);
  if (Status status = check_rate_search(impl_->training.optimizer); !status) return status.error();
  SegmentOrder order;
  order.learning_rate = start;
  Announcement announcement = announce(impl_->network->spec(), order, impl_->training);
  announcement.bucket_bytes = impl_->options.bucket_bytes;
  announcement.searches = searches;
  if (Status status = impl_->collective.broadcast_patiently(&announcement, sizeof announcement, 0);
      !status) {
    return status.error();
  }
  Result<RateSearch> result = impl_->search(announcement);
  if (!result && result.error().code != Code::not_finite) impl_->usable = false;
  return result;
}

Status Trainer::write_update(const std::filesystem::path& path) {
  Result<std::vector<std::byte>> state = impl_->state();
  if (!state) return state.error();
  if (Status status = subtract_base(impl_->network->manifest(), impl_->base, *state); !status) {
    return status;
  }
  tensor::Manifest layout = impl_->network->manifest();
  layout.metadata = impl_->metadata;
  if (!impl_->controls) return write_state(path, layout, *state);
  Result<tensor::ControlledUpdate> update =
      impl_->controls->attach(impl_->network->manifest(), *state, impl_->learning_rate_sum);
  if (!update) return update.error();
  update->layout.metadata = impl_->metadata;
  return write_state(path, update->layout, update->data);
}

Status Trainer::write_model(const std::filesystem::path& path) {
  Result<std::vector<std::byte>> state = impl_->state();
  if (!state) return state.error();
  tensor::Manifest layout = impl_->network->manifest();
  layout.metadata = impl_->metadata;
  return write_state(path, layout, *state);
}

Status Trainer::finish() {
  FEDQUEUE_ASSERT(impl_->collective.rank() == 0);
  Announcement announcement;
  return impl_->collective.broadcast_patiently(&announcement, sizeof announcement, 0);
}

Status Trainer::follow() {
  FEDQUEUE_ASSERT(impl_->collective.rank() != 0);
  for (;;) {
    Announcement announcement;
    if (Status status =
            impl_->collective.broadcast_patiently(&announcement, sizeof announcement, 0);
        !status) {
      return status;
    }
    if (announcement.run == 0) return {};
    impl_->adopt(announcement.training);
    Status done;
    if (announcement.searches > 0) {
      if (Result<RateSearch> result = impl_->search(announcement); !result) done = result.error();
    } else if (Result<SegmentResult> result = impl_->segment(announcement, {}, {}); !result) {
      done = result.error();
    }
    // A loss that is not finite is seen by every rank alike; rank 0 decides what comes next.
    if (!done && done.error().code != Code::not_finite) return done;
  }
}

}  // namespace fedqueue
