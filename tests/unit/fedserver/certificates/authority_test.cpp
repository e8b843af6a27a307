// What the certificates say, read back with OpenSSL and, where there is one, by its command.
#include "fedserver/certificates/authority.h"

#include <gmock/gmock.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <cstdlib>
#include <set>

#include "core/kit/pem.h"
#include "core/kit/request.h"
#include "tests/unit/fedserver/certificates/certificates_fixture.h"

namespace fedqueue {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// All alternative names as "DNS:…", "IP:…" or "URI:…".
std::vector<std::string> names_of(const X509* certificate) {
  std::vector<std::string> all;
  const GeneralNamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    const auto text = [](const ASN1_STRING* string) {
      return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(string)),
                         static_cast<std::size_t>(ASN1_STRING_length(string)));
    };
    if (name->type == GEN_DNS) all.push_back("DNS:" + text(name->d.dNSName));
    if (name->type == GEN_URI) all.push_back("URI:" + text(name->d.uniformResourceIdentifier));
    if (name->type == GEN_IPADD) {
      all.push_back("IP:" + std::to_string(ASN1_STRING_length(name->d.iPAddress)));
    }
  }
  return all;
}

bool critical(const X509* certificate, int nid) {
  const int index = X509_get_ext_by_NID(certificate, nid, -1);
  return index >= 0 && X509_EXTENSION_get_critical(X509_get_ext(certificate, index)) == 1;
}

class AuthorityTest : public CertificatesTest {
 protected:
  void SetUp() override {
    CertificatesTest::SetUp();
    authority.emplace(std::move(*Authority::open(run.files.authority())));
    key = std::move(*generate_key());
  }
  IssuedCertificate client(const Identity& identity) {
    Result<IssuedCertificate> issued = authority->issue_client(identity, key.get(), {});
    EXPECT_TRUE(issued.has_value());
    return std::move(*issued);
  }
  std::optional<Authority> authority;
  KeyPtr key;
};

TEST_F(AuthorityTest, TheAuthoritySignsLeavesAndNothingElse) {
  X509* ca = const_cast<X509*>(authority->certificate());
  EXPECT_EQ(X509_check_ca(ca), 1);
  EXPECT_EQ(X509_get_pathlen(ca), 0);
  EXPECT_EQ(X509_get_key_usage(ca), static_cast<unsigned>(KU_KEY_CERT_SIGN | KU_CRL_SIGN));
  EXPECT_TRUE(critical(ca, NID_basic_constraints));
  EXPECT_TRUE(critical(ca, NID_key_usage));
  EXPECT_GT(not_after_of(ca), calendar_now() + std::chrono::days{3649});
}

TEST_F(AuthorityTest, AClientCertificateIsForAClientAlone) {
  const IssuedCertificate issued = client({IdentityKind::facility, "site-a"});
  X509* certificate = issued.certificate.get();
  EXPECT_THAT(names_of(certificate), ElementsAre("URI:fedqueue:facility:site-a"));
  EXPECT_EQ(X509_get_extended_key_usage(certificate), static_cast<unsigned>(XKU_SSL_CLIENT));
  EXPECT_TRUE(critical(certificate, NID_ext_key_usage));
  EXPECT_EQ(X509_get_key_usage(certificate), static_cast<unsigned>(KU_DIGITAL_SIGNATURE));
  EXPECT_EQ(X509_check_ca(certificate), 0);
  EXPECT_EQ(X509_verify(certificate, X509_get0_pubkey(authority->certificate())), 1);
  EXPECT_EQ(issued.fingerprint, fingerprint_of(certificate));
}

TEST_F(AuthorityTest, AServerCertificateHasAllItsNamesAndIsForAServerAlone) {
  const auto issued = authority->issue_server({"a.example", "*.b.example", "192.0.2.7"},
                                              {"2001:db8::7"}, key.get(), {});
  ASSERT_TRUE(issued.has_value());
  X509* certificate = issued->certificate.get();
  EXPECT_THAT(names_of(certificate),
              ElementsAre("DNS:a.example", "DNS:*.b.example", "IP:4", "IP:16"));
  EXPECT_EQ(X509_get_extended_key_usage(certificate), static_cast<unsigned>(XKU_SSL_SERVER));
  EXPECT_EQ(X509_check_host(certificate, "a.example", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_host(certificate, "c.example", 0, 0, nullptr), 0);
  EXPECT_EQ(X509_check_ip_asc(certificate, "192.0.2.7", 0), 1);
  EXPECT_FALSE(identity_of(certificate).has_value());
}

TEST_F(AuthorityTest, NamesThatWouldSmuggleAnotherAreRefused) {
  for (const char* name : {"a.example,URI:fedqueue:operator:eve", "https://a.example", "a b", "",
                           "-a.example", "a..example", "a.example:8443"}) {
    EXPECT_EQ(failure_of(authority->issue_server({name}, {}, key.get(), {})).code, Code::usage)
        << name;
  }
  EXPECT_EQ(failure_of(authority->issue_server({}, {"[::1]"}, key.get(), {})).code, Code::usage);
  EXPECT_EQ(failure_of(authority->issue_server({}, {}, key.get(), {})).code, Code::usage);
  for (const char* name : {"Site", "site_a", "", "a:b", "../a"}) {
    EXPECT_EQ(
        failure_of(authority->issue_client({IdentityKind::facility, name}, key.get(), {})).code,
        Code::usage)
        << name;
  }
}

TEST_F(AuthorityTest, SerialNumbersAreLongAndNeverTheSame) {
  std::set<std::string> seen;
  for (int i = 0; i < 50; ++i) {
    const IssuedCertificate issued = client({IdentityKind::observer, "ada"});
    EXPECT_EQ(issued.serial.size(), 32u);
    seen.insert(issued.serial);
  }
  EXPECT_EQ(seen.size(), 50u);
}

TEST_F(AuthorityTest, NoCertificateOutlivesTheAuthority) {
  const CalendarTime late = calendar_now() + std::chrono::days{3640};
  const auto issued =
      authority->issue_client({IdentityKind::facility, "site-a"}, key.get(), {.now = late});
  ASSERT_TRUE(issued.has_value());
  EXPECT_EQ(issued->not_after, not_after_of(authority->certificate()));
  const auto refused = authority->issue_client({IdentityKind::facility, "site-a"}, key.get(),
                                               {.now = late + std::chrono::days{30}});
  EXPECT_EQ(failure_of(refused).code, Code::tls_expired);
}

TEST_F(AuthorityTest, AnAuthorityIsNeverOverwritten) {
  EXPECT_EQ(failure_of(Authority::create(run.files.authority(), "mnist")).code, Code::conflict);
}

TEST_F(AuthorityTest, KeysBelongToTheirOwnerAlone) {
  EXPECT_EQ(mode_of(run.files.authority()), 0700u);
  EXPECT_EQ(mode_of(run.files.authority() / "ca.key"), 0600u);
  EXPECT_EQ(mode_of(run.files.server_key()), 0600u);
  std::filesystem::permissions(run.files.authority() / "ca.key", std::filesystem::perms(0640));
  const Error error = failure_of(Authority::open(run.files.authority()));
  EXPECT_EQ(error.code, Code::kit);
  EXPECT_THAT(error.message, HasSubstr("its mode is 0640"));
  EXPECT_THAT(error.cure, HasSubstr("chmod 600"));
}

TEST_F(AuthorityTest, TheKeyOfAnotherAuthorityIsNoticed) {
  ASSERT_TRUE(write_private_key(run.files.authority() / "ca.key", key.get()).has_value());
  EXPECT_EQ(failure_of(Authority::open(run.files.authority())).code, Code::kit);
}

TEST_F(AuthorityTest, TheStrictVerifierOfTheOpensslCommandAcceptsTheChains) {
  if (std::system("command -v openssl >/dev/null 2>&1") != 0) GTEST_SKIP() << "no openssl command";
  const std::filesystem::path kit = kit_for(IdentityKind::facility, "site-a");
  const std::string ca = (run.files.authority() / "ca.crt").string();
  const auto verified = [&](const std::string& purpose, const std::filesystem::path& file) {
    const std::string command = "openssl verify -x509_strict -purpose " + purpose + " -CAfile '" +
                                ca + "' '" + file.string() + "' >/dev/null 2>&1";
    return std::system(command.c_str()) == 0;
  };
  EXPECT_TRUE(verified("sslclient", kit / "client.crt"));
  EXPECT_TRUE(verified("sslserver", run.files.server_certificate()));
  EXPECT_FALSE(verified("sslserver", kit / "client.crt"));
  EXPECT_FALSE(verified("sslclient", run.files.server_certificate()));
}

// Certificates nobody's authority would issue, to see that identity_of() is not fooled.
class ForgedIdentityTest : public ::testing::Test {
 protected:
  static CertificatePtr with_uris(const std::vector<std::string>& uris) {
    CertificatePtr certificate(X509_new());
    const GeneralNamesPtr names(sk_GENERAL_NAME_new_null());
    for (const std::string& uri : uris) {
      GENERAL_NAME* name = GENERAL_NAME_new();
      ASN1_IA5STRING* text = ASN1_IA5STRING_new();
      ASN1_STRING_set(text, uri.data(), static_cast<int>(uri.size()));
      GENERAL_NAME_set0_value(name, GEN_URI, text);
      sk_GENERAL_NAME_push(names.get(), name);
    }
    X509_add1_ext_i2d(certificate.get(), NID_subject_alt_name, names.get(), 0, X509V3_ADD_DEFAULT);
    return certificate;
  }
};

TEST_F(ForgedIdentityTest, OneWellFormedIdentityOrNone) {
  const Result<Identity> good =
      identity_of(with_uris({"https://example.org", "fedqueue:observer:ada"}).get());
  ASSERT_TRUE(good.has_value());
  EXPECT_EQ(*good, (Identity{IdentityKind::observer, "ada"}));
  for (const std::vector<std::string>& uris : {std::vector<std::string>{},
                                               {"fedqueue:facility:a", "fedqueue:operator:a"},
                                               {std::string("fedqueue:facility:a\0b", 21)},
                                               {"fedqueue:facility:"},
                                               {"fedqueue:root:a"},
                                               {"fedqueue:facility:a:b"},
                                               {"fedqueue:facility:A"}}) {
    EXPECT_EQ(failure_of(identity_of(with_uris(uris).get())).code, Code::identity);
  }
}

}  // namespace
}  // namespace fedqueue
