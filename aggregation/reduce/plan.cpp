#include "aggregation/reduce/plan.h"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "aggregation/reduce/float_kernels.h"

namespace fedqueue {
namespace {

using tensor::DType;
using tensor::Manifest;
using tensor::TensorInfo;

std::size_t accumulator_size(MergeRule rule, DType dtype) {
  switch (rule) {
    case MergeRule::float_sum:
      return accumulator_bytes(dtype);
    case MergeRule::pooled_variance:
      return 0;
    case MergeRule::integer_maximum:
    case MergeRule::boolean_mean:
      return 8;
    case MergeRule::integer_mean:
    case MergeRule::integer_truncated_mean:
      return 16;
  }
  return 16;
}

constexpr std::size_t align(std::size_t offset) { return (offset + 63) / 64 * 64; }

class Planner {
 public:
  Planner(const Manifest& model, BufferRule buffers, std::size_t item_bytes)
      : model_(model), rule_(buffers), item_bytes_(std::max<std::size_t>(item_bytes, 64)) {
    for (std::string& name : model.buffers()) buffers_.insert(std::move(name));
    index_ = model.index();
  }

  Plan make() {
    for (const TensorInfo& tensor : model_.tensors) plan_.tensors.push_back(rule_of(tensor));
    for (std::size_t i = 0; i < model_.tensors.size(); ++i) cut(i);
    close();
    return std::move(plan_);
  }

 private:
  [[nodiscard]] TensorPlan rule_of(const TensorInfo& tensor) const {
    TensorPlan plan;
    const bool published = rule_ == BufferRule::unweighted_truncated;
    if (tensor.dtype == DType::boolean) {
      plan.rule = MergeRule::boolean_mean;
      plan.equal_weights = published;
    } else if (tensor::is_integer(tensor.dtype)) {
      plan.equal_weights = published;
      plan.rule = published            ? MergeRule::integer_truncated_mean
                  : is_counter(tensor) ? MergeRule::integer_maximum
                                       : MergeRule::integer_mean;
    } else if (is_control(tensor)) {
      plan.control = true;
    } else if (!buffers_.contains(tensor.name)) {
      plan.parameter = true;
    } else {
      plan.equal_weights = published;
      if (const TensorInfo* mean = published ? nullptr : mean_of(tensor)) {
        plan.rule = MergeRule::pooled_variance;
        plan.mean_tensor = index_.at(mean->name);
      }
    }
    return plan;
  }

  // The running mean that belongs to a running variance, or nullptr.
  [[nodiscard]] const TensorInfo* mean_of(const TensorInfo& tensor) const {
    constexpr std::string_view variance = "running_var";
    if (!tensor.name.ends_with(variance)) return nullptr;
    const std::string name =
        tensor.name.substr(0, tensor.name.size() - variance.size()) + "running_mean";
    const auto found = index_.find(name);
    if (found == index_.end() || !buffers_.contains(name)) return nullptr;
    const TensorInfo& mean = model_.tensors[found->second];
    return mean.shape == tensor.shape && is_float(mean.dtype) ? &mean : nullptr;
  }

  void cut(std::size_t tensor_index) {
    const TensorInfo& tensor = model_.tensors[tensor_index];
    const MergeRule rule = plan_.tensors[tensor_index].rule;
    const std::size_t element = size_of(tensor.dtype);
    const std::size_t accumulator = accumulator_size(rule, tensor.dtype);
    const std::uint64_t elements = tensor.elements();
    const bool alone = rule == MergeRule::pooled_variance;
    if (alone) close();
    std::uint64_t first = 0;
    while (first < elements) {
      // Accumulators may be wider than elements; they are bounded as the item itself is.
      std::size_t room = (item_bytes_ - item_.bytes) / element;
      if (accumulator > element) {
        const std::size_t limit = 2 * item_bytes_;
        room = std::min(room, (limit - std::min(limit, accumulators_)) / accumulator);
      }
      if (room == 0) {
        close();
        continue;
      }
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(room, elements - first));
      if (item_.segment_count == 0) item_.begin = tensor.begin + first * element;
      plan_.segments.push_back({tensor_index, first, count, item_.bytes, accumulators_});
      ++item_.segment_count;
      item_.bytes += count * element;
      accumulators_ = align(accumulators_ + count * accumulator);
      first += count;
    }
    if (alone) close();
  }

  void close() {
    if (item_.segment_count > 0) plan_.items.push_back(item_);
    plan_.item_bytes_max = std::max(plan_.item_bytes_max, item_.bytes);
    plan_.accumulator_bytes_max = std::max(plan_.accumulator_bytes_max, accumulators_);
    item_ = Item{};
    item_.first_segment = plan_.segments.size();
    accumulators_ = 0;
  }

  const Manifest& model_;
  BufferRule rule_;
  std::size_t item_bytes_;
  std::unordered_set<std::string> buffers_;
  std::unordered_map<std::string_view, std::size_t> index_;
  Plan plan_;
  Item item_;
  std::size_t accumulators_ = 0;
};

}  // namespace

Plan make_plan(const Manifest& model, BufferRule buffers, std::size_t item_bytes) {
  return Planner(model, buffers, item_bytes).make();
}

}  // namespace fedqueue
