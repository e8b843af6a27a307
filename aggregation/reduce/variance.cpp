#include "aggregation/reduce/variance.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "aggregation/reduce/item.h"

namespace fedqueue {
namespace {

class VariancePool {
 public:
  VariancePool(const Reduction& reduction, const Segment& segment)
      : reduction_(reduction),
        segment_(segment),
        variance_(reduction.model.tensors[segment.tensor]),
        mean_index_(reduction.plan.tensors[segment.tensor].mean_tensor),
        mean_(reduction.model.tensors[mean_index_]),
        variances_(segment.elements),
        first_means_(segment.elements),
        mean_shifts_(segment.elements),
        square_shifts_(segment.elements) {}

  Status take_in() {
    std::vector<double> values(segment_.elements);
    for (std::size_t k = 0; k < reduction_.updates.size(); ++k) {
      const Reduction::Update& update = reduction_.updates[k];
      if (Status read = read_sum(update, variance_, segment_.tensor, values); !read) return read;
      for (std::size_t i = 0; i < values.size(); ++i) variances_[i] += update.weight * values[i];
      if (Status read = read_sum(update, mean_, mean_index_, values); !read) return read;
      if (k == 0) first_means_ = values;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double shift = values[i] - first_means_[i];
        mean_shifts_[i] += update.weight * shift;
        square_shifts_[i] += update.weight * shift * shift;
      }
    }
    return {};
  }

  Result<double> finish(std::span<std::byte> out) {
    std::vector<double> current(segment_.elements);
    if (Status read = add(reduction_.current(), variance_, segment_.tensor, current); !read) {
      return read.error();
    }
    double squares = 0;
    for (std::size_t i = 0; i < segment_.elements; ++i) {
      const double value = variances_[i] + spread(i) + (reduction_.rebuild ? 0 : current[i]);
      store_element(variance_.dtype, out.data(), i, value);
      const double stored = load_element(variance_.dtype, out.data(), i);
      if (!std::isfinite(stored)) return not_finite_sum(variance_, segment_.first + i);
      squares += (stored - current[i]) * (stored - current[i]);
    }
    return squares;
  }

 private:
  // The variance of the means among the updates, in the share the weights have of a whole step.
  [[nodiscard]] double spread(std::size_t i) const {
    const double total = reduction_.total_weight;
    if (!(total > 0)) return 0;
    const double mean = mean_shifts_[i] / total;
    const double variance = square_shifts_[i] / total - mean * mean;
    // Not std::max, which would turn NaN into 0 and hide it.
    return variance < 0 ? 0 : variance * std::min(1.0, total);
  }

  // The delta of an update, or base + delta when rebuilding.
  Status read_sum(const Reduction::Update& update, const tensor::TensorInfo& tensor,
                  std::size_t index, std::vector<double>& values) const {
    std::fill(values.begin(), values.end(), 0);
    if (Status read = add(reduction_.sources[update.delta], tensor, index, values); !read) {
      return read;
    }
    if (!reduction_.rebuild) return {};
    return add(reduction_.sources[update.base], tensor, index, values);
  }

  Status add(const Source& source, const tensor::TensorInfo& tensor, std::size_t index,
             std::vector<double>& values) const {
    std::vector<std::byte> bytes(values.size() * size_of(tensor.dtype));
    if (Status read = source.read(tensor, index, segment_.first, bytes); !read) return read;
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] += load_element(tensor.dtype, bytes.data(), i);
    }
    return {};
  }

  const Reduction& reduction_;
  const Segment& segment_;
  const tensor::TensorInfo& variance_;
  std::size_t mean_index_;
  const tensor::TensorInfo& mean_;
  std::vector<double> variances_;
  std::vector<double> first_means_;
  std::vector<double> mean_shifts_;
  std::vector<double> square_shifts_;
};

}  // namespace

Result<double> pool_variances(const Reduction& reduction, const Segment& segment,
                              std::span<std::byte> out) {
  VariancePool pool(reduction, segment);
  if (Status taken = pool.take_in(); !taken) return taken.error();
  return pool.finish(out);
}

}  // namespace fedqueue
