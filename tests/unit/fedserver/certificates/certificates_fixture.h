// A run with its certificates in a folder of its own, at a time of the test's choosing.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/kit/kit.h"
#include "fedserver/certificates/commands.h"
#include "fedserver/certificates/registry.h"
#include "tests/unit/core/config/scratch.h"

namespace fedqueue {

inline unsigned mode_of(const std::filesystem::path& path) {
  return static_cast<unsigned>(std::filesystem::status(path).permissions()) & 07777u;
}

class CertificatesTest : public ::testing::Test {
 protected:
  CertificatesTest() {
    run.files.run_directory = scratch / "run";
    run.run = "mnist";
    run.server_url = "https://fl.example.org:8443";
  }
  void SetUp() override {
    const auto made = create_certificates(run, {{"fl.example.org"}, {"127.0.0.1"}});
    ASSERT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  }

  // A kit with that name, by default in the run's own folder for kits.
  std::filesystem::path kit_for(IdentityKind kind, const std::string& name,
                                std::chrono::days lifetime = std::chrono::days{365}) {
    ClientCertificateOrder order{.identity = {kind, name}, .lifetime = lifetime};
    if (kind == IdentityKind::facility) order.samples = 600;
    const auto made = issue_client_certificate(run, order);
    EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
    return run.files.kit(order.identity);
  }
  Registry registry() { return std::move(*Registry::open(run.files.registry())); }
  Standing standing(const std::string& fingerprint) {
    const auto found = registry().lookup(fingerprint);
    EXPECT_TRUE(found.has_value() && found->has_value());
    return found && *found ? **found : Standing{};
  }

  Scratch scratch;
  CertificateRun run;
};

// The error of a result that must have failed.
template <typename T>
Error failure_of(const Result<T>& result) {
  EXPECT_FALSE(result.has_value());
  return result ? Error{} : result.error();
}

}  // namespace fedqueue
