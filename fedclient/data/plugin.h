// Datasets that a plugin reads (data_plugin.h has its interface).
//
// Thread safety: any thread. The plugin stays loaded as long as one of its datasets lives.
#pragma once

#include <filesystem>

#include "core/base/result.h"
#include "fedclient/data/dataset.h"

namespace fedqueue {

// One split of what the plugin finds in the directory. Code::usage if `plugin` is no data plugin or
// one for another release, Code::data if it fails or what it says cannot be.
Result<Dataset> load_with_plugin(const std::filesystem::path& plugin,
                                 const std::filesystem::path& directory, Split split);

}  // namespace fedqueue
