// Certificate signing requests: the facility makes its key at home, and only the request travels.
//
// A request proves that its sender holds the key, and that is all it is used for: the name in the
// certificate is the operator's choice, whatever the request says.
//
// Thread safety: as pem.h.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/result.h"
#include "core/kit/openssl_types.h"

namespace fedqueue {

// Makes client.key (0600) and client.csr in the folder; an existing key is kept and used, so that a
// lost request can be made again. Returns the path of the request.
[[nodiscard]] Result<std::filesystem::path> create_request(const std::filesystem::path& directory,
                                                           const std::string& name);

// The public key of a request whose signature proves possession of the private one. Keys weaker
// than RSA 2048 or P-256 are refused.
[[nodiscard]] Result<KeyPtr> read_request(const std::filesystem::path& path);

}  // namespace fedqueue
