// A kit, an authority and a server for the tests of the link.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/digest.h"
#include "core/base/file.h"
#include "fedclient/link/link.h"
#include "tests/unit/fedclient/link/test_certificates.h"
#include "tests/unit/fedclient/link/test_server.h"

namespace fedqueue::test {

class LinkFixture : public testing::Test {
 protected:
  LinkFixture() : authority_(make_authority("FedQueue test CA")) {
    for (const char* name : {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy",
                             "NO_PROXY", "http_proxy"}) {
      ::unsetenv(name);
    }
    std::string pattern = testing::TempDir() + "link-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    write_certificate(authority_, directory_ / "ca.crt");
    use_client(client_wanted());
    server_identity_ = make_certificate(authority_, server_wanted());
  }
  ~LinkFixture() override {
    server_.reset();
    std::filesystem::remove_all(directory_);
  }

  static Wanted server_wanted() {
    Wanted wanted;
    wanted.common_name = "server";
    wanted.names = "DNS:localhost,IP:127.0.0.1";
    wanted.extended_usage = "serverAuth";
    return wanted;
  }
  static Wanted client_wanted() {
    Wanted wanted;
    wanted.common_name = "site-a";
    wanted.names = "URI:fedqueue:facility:site-a";
    wanted.extended_usage = "clientAuth";
    return wanted;
  }
  void use_client(const Wanted& wanted, const Identity* signer = nullptr) {
    const Identity client = make_certificate(signer != nullptr ? *signer : authority_, wanted);
    write_certificate(client, directory_ / "client.crt");
    write_key(client, directory_ / "client.key");
  }

  void serve(HttpServer::Handler handler, HttpServer::Cutter cutter = nullptr) {
    server_ = std::make_unique<HttpServer>(
        &server_identity_, &authority_,
        [this, handler = std::move(handler)](const HttpRequest& request) {
          {
            std::lock_guard lock(mutex_);
            requests_.push_back(request);
          }
          return handler(request);
        },
        std::move(cutter));
  }
  std::vector<HttpRequest> requests() {
    std::lock_guard lock(mutex_);
    return requests_;
  }

  LinkConfig config(int port) {
    LinkConfig config;
    config.server_url = "https://localhost:" + std::to_string(port);
    config.run = RunId("mnist");
    config.ca = directory_ / "ca.crt";
    config.certificate = directory_ / "client.crt";
    config.key = directory_ / "client.key";
    config.pause = [this](Duration) {
      ++pauses_;
      return true;
    };
    return config;
  }
  std::unique_ptr<Link> connect() { return connect(config(server_->port())); }
  std::unique_ptr<Link> connect(const LinkConfig& with) {
    Result<std::unique_ptr<Link>> link = Link::create(with);
    EXPECT_TRUE(link) << link.error().message;
    return std::move(*link);
  }

  std::filesystem::path file(const std::string& name, const std::string& content) {
    std::ofstream(directory_ / name, std::ios::binary) << content;
    return directory_ / name;
  }

  std::filesystem::path directory_;
  Identity authority_;
  Identity server_identity_;
  std::unique_ptr<HttpServer> server_;
  std::atomic<int> pauses_ = 0;

 private:
  std::mutex mutex_;
  std::vector<HttpRequest> requests_;
};

// A text in which every part differs from every other.
inline std::string pattern(std::size_t bytes) {
  std::string text;
  text.reserve(bytes + 16);
  for (std::size_t i = 0; text.size() < bytes; ++i) text += std::to_string(i * 2654435761u) + ";";
  text.resize(bytes);
  return text;
}

}  // namespace fedqueue::test
