#include "fedclient/trainer/gradient_buckets.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace fedqueue {

// Runs behind the accumulation, unlike a tensor's own hooks.
class GradientBuckets::Hook final : public torch::autograd::FunctionPostHook {
 public:
  Hook(GradientBuckets& buckets, std::size_t bucket) : buckets_(buckets), bucket_(bucket) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    buckets_.accumulated(bucket_);
    return outputs;
  }

 private:
  GradientBuckets& buckets_;
  const std::size_t bucket_;
};

GradientBuckets::GradientBuckets(const std::vector<torch::Tensor>& parameters, std::int64_t head,
                                 std::int64_t bucket_elements) {
  std::int64_t end = head;
  for (const torch::Tensor& parameter : parameters) end += parameter.numel();
  buckets_.push_back({end, 0, 0, 0});
  for (std::size_t i = parameters.size(); i-- > 0;) {
    if (buckets_.back().count >= bucket_elements)
      buckets_.push_back({buckets_.back().begin, 0, 0, 0});
    Bucket& bucket = buckets_.back();
    bucket.begin -= parameters[i].numel();
    bucket.count += parameters[i].numel();
    // None for a parameter that is kept as it is.
    if (auto accumulator = torch::autograd::impl::grad_accumulator(parameters[i])) {
      ++bucket.parameters;
      accumulator->add_post_hook(std::make_unique<Hook>(*this, buckets_.size() - 1));
      accumulators_.push_back(std::move(accumulator));
    }
  }
  buckets_.back().begin -= head;
  buckets_.back().count += head;
}

void GradientBuckets::start(Complete complete) {
  for (Bucket& bucket : buckets_) bucket.missing = bucket.parameters;
  next_ = 0;
  status_ = {};
  complete_ = std::move(complete);
}

Status GradientBuckets::finish() {
  while (complete_ && status_ && next_ < buckets_.size()) hand_out();
  complete_ = nullptr;
  return status_;
}

void GradientBuckets::accumulated(std::size_t bucket) {
  if (!complete_) return;
  --buckets_[bucket].missing;
  while (status_ && next_ + 1 < buckets_.size() && buckets_[next_].missing == 0) hand_out();
}

void GradientBuckets::hand_out() {
  const Bucket& bucket = buckets_[next_++];
  status_ = complete_(bucket.begin, bucket.count);
}

}  // namespace fedqueue
