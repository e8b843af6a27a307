#include "aggregation/reduce/average.h"

#include "core/base/assert.h"

namespace fedqueue {

Result<ReduceResult> average_models(const std::vector<std::filesystem::path>& models,
                                    const std::map<std::string, std::string>& metadata,
                                    const std::filesystem::path& output) {
  FEDQUEUE_ASSERT(!models.empty());
  ReduceRequest request;
  request.current = models.back();
  request.rebuild_models = true;
  for (const std::filesystem::path& model : models) {
    request.updates.push_back({model, {}, 1.0 / static_cast<double>(models.size())});
  }
  request.metadata = metadata;
  request.output = output;
  return reduce(request);
}

}  // namespace fedqueue
