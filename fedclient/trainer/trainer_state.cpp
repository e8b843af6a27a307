#include "fedclient/trainer/trainer_state.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/assert.h"
#include "core/base/text.h"
#include "core/tensor/file.h"
#include "fedclient/trainer/model_file.h"

namespace fedqueue {
namespace {

constexpr const char* kFirst = "first.";
constexpr const char* kSecond = "second.";
constexpr const char* kLosses = "sampling.losses";
constexpr const char* kDrawnBy = "sampling.drawn_by";

// Shortest text that reads back as the same value.
std::string exact(double value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value);
  return {text, end.ptr};
}

// Separated by spaces; what is no number counts as NaN.
std::vector<double> numbers_in(const std::string& text) {
  std::vector<double> numbers;
  for (const std::string& word : split(text, ' '))
    numbers.push_back(parse_real(word).value_or(std::numeric_limits<double>::quiet_NaN()));
  return numbers;
}

void describe(std::vector<tensor::TensorInfo>& infos, const char* prefix,
              const std::vector<ParameterRange>& parameters) {
  for (const ParameterRange& range : parameters) {
    tensor::TensorInfo info;
    info.name = prefix + range.name;
    info.dtype = tensor::DType::f32;
    info.shape = range.shape;
    infos.push_back(std::move(info));
  }
}

// Between the flat order and the file's.
template <typename Copy>
void each_range(const tensor::Manifest& layout, const char* prefix,
                const std::vector<ParameterRange>& parameters, Copy&& copy) {
  const auto index = layout.index();
  for (const ParameterRange& range : parameters)
    copy(layout.tensors[index.at(prefix + range.name)], range);
}

bool finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

bool finite(const OptimizerState& state) { return finite(state.first) && finite(state.second); }

Error damaged(const std::filesystem::path& path, const std::string& what) {
  return {Code::model_format, "read the training state '" + path.string() + "': " + what,
          "Move the file away: the next job then begins with an empty optimiser."};
}

// Reads metadata values one after the other; the first that is missing or no number is kept.
class Fields {
 public:
  explicit Fields(const std::map<std::string, std::string>& metadata) : metadata_(metadata) {}

  void integer(const std::string& name, std::int64_t& out, std::int64_t least) {
    const auto found = metadata_.find(name);
    const auto value = found == metadata_.end() ? std::nullopt : parse_integer(found->second);
    if (!value || *value < least) return fail(name);
    out = *value;
  }
  void real(const std::string& name, double& out) {
    const auto found = metadata_.find(name);
    const auto value = found == metadata_.end() ? std::nullopt : parse_real(found->second);
    if (!value || !(*value >= 0)) return fail(name);
    out = *value;
  }
  [[nodiscard]] std::string text(const std::string& name) {
    const auto found = metadata_.find(name);
    return found == metadata_.end() ? "" : found->second;
  }
  void fail(const std::string& name) {
    if (wrong_.empty()) wrong_ = name;
  }
  [[nodiscard]] const std::string& wrong() const { return wrong_; }

 private:
  const std::map<std::string, std::string>& metadata_;
  std::string wrong_;
};

}  // namespace

Status share(TrainerState& state, Collective& collective) {
  struct Plain {
    LocalOptimizer kind = LocalOptimizer::sgd;
    std::int64_t steps = 0;
    std::int64_t first = 0;
    std::int64_t second = 0;
    LearningRateState schedule;
    std::uint64_t order_seed = 0;
    BatchPosition position;
    std::int64_t samples = 0;
    std::int64_t losses = 0;
    std::int64_t drawn_by = 0;
  };
  OptimizerState& optimizer = state.optimizer;
  Plain plain{optimizer.kind,
              optimizer.steps,
              static_cast<std::int64_t>(optimizer.first.size()),
              static_cast<std::int64_t>(optimizer.second.size()),
              state.schedule,
              state.data.order_seed,
              state.data.position,
              state.data.samples,
              static_cast<std::int64_t>(state.data.losses.size()),
              static_cast<std::int64_t>(state.data.drawn_by.size())};
  if (Status status = collective.broadcast(&plain, sizeof plain, 0); !status) return status;
  optimizer.kind = plain.kind;
  optimizer.steps = plain.steps;
  optimizer.first.resize(static_cast<std::size_t>(plain.first));
  optimizer.second.resize(static_cast<std::size_t>(plain.second));
  state.schedule = plain.schedule;
  state.data.order_seed = plain.order_seed;
  state.data.position = plain.position;
  state.data.samples = plain.samples;
  state.data.losses.resize(static_cast<std::size_t>(plain.losses));
  state.data.drawn_by.resize(static_cast<std::size_t>(plain.drawn_by));
  for (std::vector<float>* values :
       {&optimizer.first, &optimizer.second, &state.data.losses, &state.data.drawn_by}) {
    if (values->empty()) continue;
    if (Status status = collective.broadcast(values->data(), values->size() * sizeof(float), 0);
        !status) {
      return status;
    }
  }
  return {};
}

Status write_trainer_state(const std::filesystem::path& path, const TrainerState& state,
                           const std::vector<ParameterRange>& parameters) {
  if (!finite(state.optimizer)) {
    return Error{
        Code::not_finite,
        "keep the training state '" + path.string() + "': the optimiser's state is not finite",
        "Lower the learning rate (lr_base), add warm-up steps, or set clip_norm."};
  }
  std::vector<tensor::TensorInfo> infos;
  if (!state.optimizer.first.empty()) describe(infos, kFirst, parameters);
  if (!state.optimizer.second.empty()) describe(infos, kSecond, parameters);
  const std::pair<const char*, const std::vector<float>&> of_samples[] = {
      {kLosses, state.data.losses}, {kDrawnBy, state.data.drawn_by}};
  for (const auto& [name, values] : of_samples) {
    if (values.empty()) continue;
    infos.push_back({.name = name,
                     .dtype = tensor::DType::f32,
                     .shape = {static_cast<std::int64_t>(values.size())}});
  }
  std::map<std::string, std::string> metadata = {
      {"fedqueue.optimizer", to_text(state.optimizer.kind)},
      {"fedqueue.optimizer_steps", std::to_string(state.optimizer.steps)},
      {"fedqueue.schedule_steps", exact(state.schedule.steps_done)},
      {"fedqueue.batch", std::to_string(state.schedule.batch)},
      {"fedqueue.ramp_from", exact(state.schedule.ramp_from)},
      {"fedqueue.ramp_done", std::to_string(state.schedule.ramp_done)},
      {"fedqueue.order_seed", std::to_string(static_cast<std::int64_t>(state.data.order_seed))},
      {"fedqueue.epoch", std::to_string(state.data.position.epoch)},
      {"fedqueue.offset", std::to_string(state.data.position.offset)},
      {"fedqueue.samples", std::to_string(state.data.samples)}};
  if (state.schedule.warm_up != AutoWarmUp()) {
    std::string& numbers = metadata["fedqueue.auto_warm_up"];
    for (const double number : to_numbers(state.schedule.warm_up))
      numbers += (numbers.empty() ? "" : " ") + exact(number);
  }
  const Result<tensor::Manifest> layout = tensor::lay_out(std::move(infos), std::move(metadata));
  if (!layout) return layout.error();
  std::vector<std::byte> data(layout->data_bytes);
  const auto pack = [&](const char* prefix, const std::vector<float>& values) {
    if (values.empty()) return;
    each_range(*layout, prefix, parameters,
               [&](const tensor::TensorInfo& info, const ParameterRange& range) {
                 std::memcpy(data.data() + info.begin, values.data() + range.begin, info.bytes());
               });
  };
  pack(kFirst, state.optimizer.first);
  pack(kSecond, state.optimizer.second);
  for (const auto& [name, values] : of_samples) {
    if (const tensor::TensorInfo* info = layout->find(name); info != nullptr)
      std::memcpy(data.data() + info->begin, values.data(), info->bytes());
  }
  if (Status written = write_state(path, *layout, data); !written)
    return within("keep the training state", written.error());
  return {};
}

Result<TrainerState> read_trainer_state(const std::filesystem::path& path,
                                        const std::vector<ParameterRange>& parameters) {
  const Result<tensor::Reader> reader = tensor::Reader::open(path);
  if (!reader) return within("read the training state", reader.error());
  const tensor::Manifest& found = reader->manifest();
  TrainerState state;
  Fields fields(found.metadata);
  const auto kind = parse_local_optimizer(fields.text("fedqueue.optimizer"));
  if (!kind) fields.fail("fedqueue.optimizer");
  state.optimizer.kind = kind.value_or(LocalOptimizer::sgd);
  fields.integer("fedqueue.optimizer_steps", state.optimizer.steps, 0);
  fields.real("fedqueue.schedule_steps", state.schedule.steps_done);
  fields.integer("fedqueue.batch", state.schedule.batch, 1);
  fields.real("fedqueue.ramp_from", state.schedule.ramp_from);
  fields.integer("fedqueue.ramp_done", state.schedule.ramp_done, 0);
  if (found.metadata.contains("fedqueue.auto_warm_up")) {
    const std::optional<AutoWarmUp> warm_up =
        auto_warm_up_of(numbers_in(fields.text("fedqueue.auto_warm_up")));
    if (!warm_up) fields.fail("fedqueue.auto_warm_up");
    state.schedule.warm_up = warm_up.value_or(AutoWarmUp());
  }
  std::int64_t seed = 0;
  fields.integer("fedqueue.order_seed", seed, std::numeric_limits<std::int64_t>::min());
  state.data.order_seed = static_cast<std::uint64_t>(seed);
  fields.integer("fedqueue.epoch", state.data.position.epoch, 0);
  fields.integer("fedqueue.samples", state.data.samples, 1);
  fields.integer("fedqueue.offset", state.data.position.offset, 0);
  if (!fields.wrong().empty()) return damaged(path, "its " + fields.wrong() + " is no value");
  if (state.data.position.offset > state.data.samples)
    return damaged(path, "its offset is beyond its data");

  std::int64_t count = 0;
  for (const ParameterRange& range : parameters) count += range.count;
  const auto index = found.index();
  const auto unpack = [&](const char* prefix, std::vector<float>& out) -> Status {
    if (parameters.empty() || !index.contains(prefix + parameters.front().name)) return {};
    out.resize(static_cast<std::size_t>(count));
    for (const ParameterRange& range : parameters) {
      const auto at = index.find(prefix + range.name);
      const tensor::TensorInfo* info = at == index.end() ? nullptr : &found.tensors[at->second];
      if (info == nullptr || info->shape != range.shape || info->dtype != tensor::DType::f32) {
        return Error{Code::model_mismatch,
                     "read the training state '" + path.string() + "': it has no " + prefix +
                         range.name + " of the model's shape",
                     "It is of another model. Move it away."};
      }
      const auto bytes = std::as_writable_bytes(std::span(out).subspan(
          static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.count)));
      if (Status read = reader->read_tensor(*info, bytes); !read) return read;
    }
    return {};
  };
  if (Status status = unpack(kFirst, state.optimizer.first); !status) return status.error();
  if (Status status = unpack(kSecond, state.optimizer.second); !status) return status.error();
  std::size_t of_samples = 0;
  const auto unpack_samples = [&](const char* name, std::vector<float>& out) -> Status {
    const tensor::TensorInfo* info = found.find(name);
    if (info == nullptr) return {};
    ++of_samples;
    out.resize(static_cast<std::size_t>(state.data.samples));
    if (info->dtype != tensor::DType::f32 || info->bytes() != out.size() * sizeof(float))
      return damaged(path, std::string("its ") + name + " are not as many as its samples");
    return reader->read_tensor(*info, std::as_writable_bytes(std::span(out)));
  };
  if (Status status = unpack_samples(kLosses, state.data.losses); !status) return status.error();
  if (Status status = unpack_samples(kDrawnBy, state.data.drawn_by); !status) return status.error();
  const std::size_t known =
      (state.optimizer.first.empty() ? 0u : 1u) + (state.optimizer.second.empty() ? 0u : 1u);
  if (found.tensors.size() != known * parameters.size() + of_samples) {
    return Error{Code::model_mismatch,
                 "read the training state '" + path.string() + "': it is of another model",
                 "Move it away."};
  }
  if (!finite(state.optimizer) || !finite(state.data.losses) || !finite(state.data.drawn_by))
    return damaged(path, "it holds a value that is not finite");
  return state;
}

}  // namespace fedqueue
