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
        mean_shifts_(segment.elements),
        square_shifts_(segment.elements),
        total_(reduction.total_of(reduction.plan.tensors[segment.tensor])) {}

  Status take_in() {
    for (const Reduction::Update& update : reduction_.updates) {
      std::vector<const Source*> sources = {&reduction_.sources[update.delta]};
      if (update.base) sources.push_back(&reduction_.sources[*update.base]);
      if (Status taken = take_in(sources, update.weight); !taken) return taken;
    }
    if (!reduction_.rebuild || reduction_.keep == 0) return {};
    return take_in({&reduction_.current()}, reduction_.keep);
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
    if (!(total_ > 0)) return 0;
    const double mean = mean_shifts_[i] / total_;
    const double variance = square_shifts_[i] / total_ - mean * mean;
    // Not std::max, which would turn NaN into 0 and hide it.
    return variance < 0 ? 0 : variance * std::min(1.0, total_);
  }

  // One part of the mixture: a delta, base and delta together, or the current model.
  Status take_in(const std::vector<const Source*>& sources, double weight) {
    std::vector<double> values(segment_.elements);
    for (const Source* source : sources) {
      if (Status read = add(*source, variance_, segment_.tensor, values); !read) return read;
    }
    for (std::size_t i = 0; i < values.size(); ++i) variances_[i] += weight * values[i];
    std::fill(values.begin(), values.end(), 0);
    for (const Source* source : sources) {
      if (Status read = add(*source, mean_, mean_index_, values); !read) return read;
    }
    if (first_means_.empty()) first_means_ = values;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double shift = values[i] - first_means_[i];
      mean_shifts_[i] += weight * shift;
      square_shifts_[i] += weight * shift * shift;
    }
    return {};
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
  double total_;  // of the weights
};

}  // namespace

Result<double> pool_variances(const Reduction& reduction, const Segment& segment,
                              std::span<std::byte> out) {
  VariancePool pool(reduction, segment);
  if (Status taken = pool.take_in(); !taken) return taken.error();
  return pool.finish(out);
}

}  // namespace fedqueue
