/**
 * What a request to S3 has to show to be let in: AWS Signature Version 4 in the Authorization header.
 * https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
 */
import { createHash, createHmac } from 'node:crypto';

export type S3Credentials = Readonly<{ accessKeyId: string; secretAccessKey: string }>;

export type S3Request = Readonly<{
  method: string;
  /** Its path is encoded as it is sent. */
  url: URL;
  /** Names in lower case; all of them are signed, and the host. */
  headers: Readonly<Record<string, string>>;
  /** Hexadecimal, of the body: other bytes are refused on the other side. */
  payloadSha256: string;
}>;

/** All headers it is sent with. */
export function signedHeaders(
  { method, url, headers, payloadSha256 }: S3Request,
  { credentials, region, nowMs }: { credentials: S3Credentials; region: string; nowMs: number },
): Record<string, string> {
  const time = `${new Date(nowMs).toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}Z`;
  const scope = [time.slice(0, 8), region, 's3', 'aws4_request'];
  const all = { ...headers, host: url.host, 'x-amz-content-sha256': payloadSha256, 'x-amz-date': time };
  const sorted = Object.entries(all).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const names = sorted.map(([name]) => name).join(';');
  const canonical = [
    method,
    url.pathname,
    [...url.searchParams]
      .map(([name, value]) => `${encoded(name)}=${encoded(value)}`)
      .toSorted()
      .join('&'),
    ...sorted.map(([name, value]) => `${name}:${value.trim()}`),
    '',
    names,
    payloadSha256,
  ].join('\n');
  const text = ['AWS4-HMAC-SHA256', time, scope.join('/'), sha256(canonical)].join('\n');
  const key = scope.reduce<string | Buffer>((secret, part) => hmac(secret, part), `AWS4${credentials.secretAccessKey}`);
  const credential = `${credentials.accessKeyId}/${scope.join('/')}`;
  const signature = hmac(key, text).toString('hex');
  return {
    ...all,
    authorization: `AWS4-HMAC-SHA256 Credential=${credential},SignedHeaders=${names},Signature=${signature}`,
  };
}

/** As RFC 3986 has it: everything but letters, digits, `-`, `.`, `_` and `~`. */
export function encoded(text: string): string {
  return encodeURIComponent(text).replaceAll(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

export function sha256(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
