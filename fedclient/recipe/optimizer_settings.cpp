#include "fedclient/recipe/optimizer_settings.h"

#include "core/base/assert.h"

namespace fedqueue {

const char* to_text(LocalOptimizer optimizer) {
  switch (optimizer) {
    case LocalOptimizer::sgd:
      return "sgd";
    case LocalOptimizer::adamw:
      return "adamw";
    case LocalOptimizer::lars:
      return "lars";
    case LocalOptimizer::lamb:
      return "lamb";
    case LocalOptimizer::lans:
      return "lans";
  }
  FEDQUEUE_ASSERT(false);
}

std::optional<LocalOptimizer> parse_local_optimizer(std::string_view text) {
  for (const LocalOptimizer optimizer :
       {LocalOptimizer::sgd, LocalOptimizer::adamw, LocalOptimizer::lars, LocalOptimizer::lamb,
        LocalOptimizer::lans}) {
    if (text == to_text(optimizer)) return optimizer;
  }
  return std::nullopt;
}

double OptimizerSettings::decay() const {
  if (weight_decay) return *weight_decay;
  if (kind == LocalOptimizer::sgd) return 0;
  return kind == LocalOptimizer::lars ? 5e-4 : 0.01;
}

double OptimizerSettings::stabilizer() const {
  return epsilon.value_or(kind == LocalOptimizer::adamw ? 1e-8 : 1e-6);
}

}  // namespace fedqueue
