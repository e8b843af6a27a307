#include "aggregation/reduce/reduce.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "aggregation/reduce/item.h"
#include "aggregation/reduce/plan.h"
#include "aggregation/reduce/sink.h"
#include "aggregation/reduce/source.h"
#include "core/tensor/file.h"

namespace fedqueue {
namespace {

// So many files stay open; beyond, the limit on descriptors of a usual process would be near.
constexpr std::size_t open_files_max = 256;

Status check(const ReduceRequest& request) {
  for (const ReduceUpdate& update : request.updates) {
    if (std::isfinite(update.weight)) continue;
    return Error{Code::aggregation,
                 "reduce '" + update.update.string() + "': its weight is not a finite number", ""};
  }
  if (request.rebuild_models && request.updates.empty()) {
    return Error{Code::aggregation, "reduce: there is no update to rebuild a model from",
                 "Close a round only when at least one update counts."};
  }
  if (!std::isfinite(request.keep) || !std::isfinite(request.control_weight)) {
    return Error{Code::aggregation,
                 "reduce: the weight of the current model or of the control variates is not a "
                 "finite number",
                 ""};
  }
  if (request.rebuild_models && request.step != ServerStep{}) {
    return Error{
        Code::aggregation,
        "reduce: a server optimiser acts on a sum of deltas, but whole models are mixed",
        "Set outer = none and outer_lr = 1, or let the policy add deltas (mixing = deltas)."};
  }
  return request.step.validate();
}

// Whether the weighted sum itself is not the step.
bool needs_step(const ServerStep& step) { return step.has_state() || step.learning_rate != 1; }

// Opens every file once, however often it is named.
class SourceOpener {
 public:
  explicit SourceOpener(Reduction& reduction) : reduction_(reduction) {}

  Result<std::size_t> open(const std::filesystem::path& path, const std::string& role) {
    const auto [entry, inserted] = opened_.try_emplace(path.string(), reduction_.sources.size());
    if (!inserted) return entry->second;
    const bool keep_open = reduction_.sources.size() < open_files_max;
    Result<Source> source = Source::open(path, reduction_.model, role, keep_open);
    if (!source) return source.error();
    reduction_.sources.push_back(std::move(*source));
    return entry->second;
  }

 private:
  Reduction& reduction_;
  std::unordered_map<std::string, std::size_t> opened_;
};

Status open_sources(const ReduceRequest& request, Reduction& reduction) {
  SourceOpener opener(reduction);
  if (Result<std::size_t> current = opener.open(request.current, "model"); !current) {
    return current.error();
  }
  for (const ReduceUpdate& update : request.updates) {
    const Result<std::size_t> delta = opener.open(update.update, "update");
    if (!delta) return delta.error();
    Reduction::Update opened{.delta = *delta, .base = {}, .weight = update.weight};
    if (request.rebuild_models && !update.base.empty()) {
      const Result<std::size_t> base = opener.open(update.base, "base");
      if (!base) return base.error();
      opened.base = *base;
    }
    reduction.updates.push_back(opened);
    reduction.total_weight += update.weight;
  }
  return {};
}

std::size_t thread_count(const ReduceRequest& request, const Plan& plan) {
  const std::size_t wanted = request.threads > 0 ? static_cast<std::size_t>(request.threads)
                                                 : std::thread::hardware_concurrency();
  return std::clamp<std::size_t>(wanted, 1, std::max<std::size_t>(plan.items.size(), 1));
}

void work(const Reduction& reduction, const tensor::Writer& writer, OrderedSink& sink) {
  ItemWorker worker(reduction);
  while (const std::optional<std::size_t> index = sink.claim()) {
    const Item& item = reduction.plan.items[*index];
    const std::span<std::byte> out = sink.slot(*index).first(item.bytes);
    const Result<double> squares = worker.process(item, out);
    if (!squares) {
      sink.fail(*index, squares.error());
      continue;
    }
    if (Status placed = writer.place(item.begin, out); !placed) {
      sink.fail(*index, placed.error());
      continue;
    }
    sink.deliver(*index, item.bytes, *squares);
  }
}

// Runs the workers; the calling thread is one of them.
void run_workers(std::size_t count, const std::function<void()>& work) {
  std::vector<std::jthread> threads;
  try {
    for (std::size_t i = 1; i < count; ++i) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // A limit on threads: those that did start, and this one, do the work.
  }
  work();
}

// The pass before the sum that HeLoCo needs: how each tensor's sum lies to its momentum.
Status measure(Reduction& reduction, std::size_t threads) {
  std::vector<HelocoSums> parts(reduction.plan.segments.size());
  std::mutex mutex;
  std::size_t claimed = 0;
  std::optional<std::pair<std::size_t, Error>> failed;
  run_workers(threads, [&] {
    ItemWorker worker(reduction);
    for (;;) {
      std::unique_lock lock(mutex);
      if (failed || claimed == reduction.plan.items.size()) return;
      const std::size_t index = claimed++;
      lock.unlock();
      if (Status done = worker.measure(reduction.plan.items[index], parts); !done) {
        lock.lock();
        if (!failed || index < failed->first) failed.emplace(index, done.error());
      }
    }
  });
  if (failed) return failed->second;
  std::vector<HelocoSums> sums(reduction.model.tensors.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    HelocoSums& sum = sums[reduction.plan.segments[i].tensor];
    sum.product += parts[i].product;
    sum.delta += parts[i].delta;
    sum.momentum += parts[i].momentum;
  }
  for (const HelocoSums& sum : sums) reduction.corrections.push_back(heloco_correction(sum));
  return {};
}

Result<ReduceResult> write_result(const ReduceRequest& request, Reduction& reduction) {
  const std::size_t threads = thread_count(request, reduction.plan);
  // Momentum that has not begun has no direction: the first step needs no measuring.
  if (request.step.optimizer == ServerOptimizer::heloco && reduction.step->has_input()) {
    if (Status measured = measure(reduction, threads); !measured) return measured.error();
  }
  tensor::Manifest manifest = reduction.model;
  for (const auto& [key, value] : request.metadata) manifest.metadata[key] = value;
  Result<tensor::Writer> writer = tensor::Writer::create(request.output, std::move(manifest));
  if (!writer) return writer.error();

  const auto digest = [&](std::size_t, std::span<const std::byte> bytes) { writer->digest(bytes); };
  OrderedSink sink(reduction.plan.items.size(), 2 * threads + 2, reduction.plan.item_bytes_max,
                   digest);
  run_workers(threads, [&] { work(reduction, *writer, sink); });
  if (sink.error()) return *sink.error();

  ReduceResult result;
  if (reduction.step != nullptr) {
    Result<std::optional<ReduceState>> state = reduction.step->finish();
    if (!state) return state.error();
    result.state = std::move(*state);
  }
  const Result<tensor::WrittenFile> written = writer->finish();
  if (!written) return written.error();
  const double squares = std::min(sink.squares(), std::numeric_limits<double>::max());
  result.sha256 = written->sha256;
  result.bytes = written->bytes;
  result.step_norm = std::sqrt(squares);
  return result;
}

}  // namespace

Result<ReduceResult> reduce(const ReduceRequest& request) {
  if (Status good = check(request); !good) return good.error();
  Result<tensor::Reader> current = tensor::Reader::open(request.current);
  if (!current) return within("reduce the model", current.error());
  Reduction reduction;
  reduction.model = current->manifest();
  reduction.rebuild = request.rebuild_models;
  reduction.keep = request.keep;
  reduction.control_weight = request.control_weight;
  reduction.plan = make_plan(reduction.model, request.buffers);
  if (Status opened = open_sources(request, reduction); !opened) return opened.error();
  std::optional<StepFiles> step;
  if (needs_step(request.step)) {
    Result<StepFiles> opened = StepFiles::open(request, reduction.model, reduction.plan);
    if (!opened) return opened.error();
    reduction.step = &step.emplace(std::move(*opened));
  }
  Result<ReduceResult> result = write_result(request, reduction);
  if (!result && request.step.has_state()) {
    std::error_code ignored;  // what could not be removed is swept at the next start
    std::filesystem::remove(request.state_output, ignored);
  }
  return result;
}

}  // namespace fedqueue
