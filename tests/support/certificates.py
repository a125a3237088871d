"""Certificate authorities and loopback server certificates, as PEM files."""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = dt.timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCertificate:
    """A certificate for ``localhost`` and ``127.0.0.1``, as PEM files.

    Attributes:
        certificate: The certificate alone.
        key: Its private key: PKCS#8, not encrypted.
        authority: Certificate of the authority that issued it: what a client has to trust.
    """

    certificate: Path
    key: Path
    authority: Path


class CertificateAuthority:
    """A self-signed authority. Clients that trust its ``certificate`` trust what it issues, and only that."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        """Create the authority and write ``<name>.pem`` into ``directory``, making it if need be."""
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _name(name)
        now = dt.datetime.now(dt.UTC)
        certificate = (
            _builder(self._subject, self._key.public_key(), now - 30 * _DAY, now + 30 * _DAY)
            .issuer_name(self._subject)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = directory / f"{name}.pem"
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str = "server", *, expired: bool = False) -> ServerCertificate:
        """Write ``<name>.pem`` and ``<name>.key`` beside the authority's own certificate.

        Args:
            name: File name, and common name of the subject.
            expired: End the certificate's validity yesterday; the authority itself stays valid.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        now = dt.datetime.now(dt.UTC)
        not_after = now - _DAY if expired else now + 20 * _DAY
        hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        certificate = (
            _builder(_name(name), key.public_key(), now - 20 * _DAY, not_after)
            .issuer_name(self._subject)
            .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        issued = ServerCertificate(
            certificate=self._directory / f"{name}.pem",
            key=self._directory / f"{name}.key",
            authority=self.certificate,
        )
        issued.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        issued.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return issued


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    not_before: dt.datetime,
    not_after: dt.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before)
        .not_valid_after(not_after)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
