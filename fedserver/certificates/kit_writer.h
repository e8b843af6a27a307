// Writes the folder that a facility, an operator or an observer gets (core/kit/kit.h reads it).
//
// Thread safety: distinct folders are independent.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/result.h"
#include "core/kit/identity.h"
#include "core/kit/openssl_types.h"

namespace fedqueue {

struct KitContent {
  Identity identity;
  std::filesystem::path ca_file;
  X509* certificate = nullptr;
  EVP_PKEY* key = nullptr;  // null when the key stays at the facility
  std::string run;
  std::string server_url;
};

// The folder is made with mode 0700. The settings file is kept if there is one, since its owner may
// have added to it; everything else is replaced.
Status write_kit(const std::filesystem::path& directory, const KitContent& content);

}  // namespace fedqueue
