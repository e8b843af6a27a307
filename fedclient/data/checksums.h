// `manifest.sha256` beside the files of a dataset: one line `HEX  NAME` for each, as the program
// sha256sum writes and checks them.
//
// Thread safety: the functions may be called from any thread on distinct directories.
#pragma once

#include <filesystem>
#include <optional>

#include "core/base/result.h"

namespace fedqueue {

inline constexpr const char* kChecksumFile = "manifest.sha256";

// Of all files in the directory but the manifest itself and hidden ones.
Status write_checksums(const std::filesystem::path& directory);

// How many files were compared and are right; nothing without a manifest. Code::data names the
// first file that is missing or differs.
Result<std::optional<int>> verify_checksums(const std::filesystem::path& directory);

}  // namespace fedqueue
