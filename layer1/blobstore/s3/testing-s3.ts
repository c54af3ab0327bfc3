/** An S3 service in memory that checks signatures. For tests. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, createServer } from 'node:http';
import { buffer } from 'node:stream/consumers';
import type { S3Bucket } from './requests.ts';
import { type S3Credentials, encoded, sha256, signedHeaders } from './signature.ts';

type Answer = { status: number; headers?: Record<string, string>; body?: string | Buffer };

export type TestS3 = AsyncDisposable & {
  bucket: S3Bucket;
  credentials: S3Credentials;
  objects: Map<string, Buffer>;
  /** Uploads that were begun and neither finished nor given up. */
  uploads: Map<string, Map<number, Buffer>>;
  /** Of all uploads, by their ids. */
  begun: Map<string, { key: string; at: number }>;
  /** So many requests fail that could be asked again. */
  failing: { left: number; status: number; code: string };
  /** So many requests are carried out, and their answers lost. */
  losing: { left: number; method: string };
  /** So many answers with a body break in its middle. */
  breaking: { left: number };
  /** Its clock is another one. */
  skewed: boolean;
  /** Runs before a request is carried out; `key` is the whole one. */
  before: ((method: string, key: string, query: URLSearchParams) => Promise<void>) | undefined;
};

const listed = 2;

export async function startTestS3(): Promise<TestS3> {
  const credentials = { accessKeyId: 'KEYID', secretAccessKey: 'secret/key' };
  const region = 'eu-test-1';
  const name = 'backups';
  const objects = new Map<string, Buffer>();
  const uploads = new Map<string, Map<number, Buffer>>();
  const begun = new Map<string, { key: string; at: number }>();
  const failing = { left: 0, status: 503, code: 'SlowDown' };
  const breaking = { left: 0 };
  const losing = { left: 0, method: 'POST' };
  const hooks: Pick<TestS3, 'before' | 'skewed'> = { before: undefined, skewed: false };

  function isSigned(request: IncomingMessage, url: URL, body: Buffer): boolean {
    const { range } = request.headers;
    const { authorization = '', 'x-amz-date': time = '', 'x-amz-content-sha256': payloadSha256 } = request.headers;
    const nowMs = Date.parse(String(time).replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)/, '$1-$2-$3T$4:$5:'));
    if (payloadSha256 !== sha256(body) || Number.isNaN(nowMs)) return false;
    const headers: Record<string, string> = range === undefined ? {} : { range };
    const signed = { method: request.method ?? '', url, headers, payloadSha256 };
    return signedHeaders(signed, { credentials, region, nowMs })['authorization'] === authorization;
  }

  function answer(
    { method = '', headers: { range } }: IncomingMessage,
    key: string,
    query: URLSearchParams,
    body: Buffer,
  ): Answer {
    const uploadId = query.get('uploadId') ?? '';
    const parts = begun.get(uploadId)?.key === key ? uploads.get(uploadId) : undefined;
    if (key === '') return query.has('uploads') ? listUploads(query) : list(query);
    if (method === 'POST' && query.has('uploads')) {
      const id = `upload-${begun.size}&1`;
      uploads.set(id, new Map());
      begun.set(id, { key, at: Date.now() });
      return { status: 200, body: `<R><UploadId>${id.replace('&', '&amp;')}</UploadId></R>` };
    }
    if (query.has('uploadId') && parts === undefined) return refusal(404, 'NoSuchUpload');
    if (parts !== undefined && method === 'PUT') {
      parts.set(Number(query.get('partNumber')), body);
      return { status: 200, headers: { etag: tagOf(body) } };
    }
    if (parts !== undefined && method === 'DELETE') return { status: uploads.delete(uploadId) ? 204 : 404 };
    if (parts !== undefined && method === 'POST') {
      const tags = [...body.toString().matchAll(/<ETag>(.*?)<\/ETag>/g)].map(([, tag]) => tag);
      const inOrder = [...parts].toSorted(([a], [b]) => a - b).map(([, part]) => part);
      if (inOrder.map(tagOf).join() !== tags.join())
        return { status: 200, body: '<Error><Code>InvalidPart</Code></Error>' };
      objects.set(key, Buffer.concat(inOrder));
      uploads.delete(uploadId);
      return { status: 200, body: '<R><ETag>x</ETag></R>' };
    }
    if (method === 'PUT') {
      objects.set(key, body);
      return { status: 200 };
    }
    if (method === 'DELETE') {
      objects.delete(key);
      return { status: 204 };
    }
    const object = objects.get(key);
    if (object === undefined) return refusal(404, 'NoSuchKey');
    const from = Number(/^bytes=(\d+)-$/.exec(range ?? '')?.[1] ?? 0);
    if (from > 0 && from >= object.length) return refusal(416, 'InvalidRange');
    const sent = object.subarray(from);
    return { status: from > 0 ? 206 : 200, headers: { 'content-length': String(sent.length) }, body: sent };
  }

  function list(query: URLSearchParams): Answer {
    const after = query.get('continuation-token') ?? query.get('start-after') ?? '';
    const all = [...objects.keys()]
      .filter((key) => key.startsWith(query.get('prefix') ?? '') && key > after)
      .toSorted();
    const page = all.slice(0, listed);
    const contents = page.map(
      (key) => `<Contents><Key>${encoded(key)}</Key><Size>${objects.get(key)?.length ?? 0}</Size></Contents>`,
    );
    const more =
      all.length > listed
        ? `<IsTruncated>true</IsTruncated><NextContinuationToken>${page.at(-1) ?? ''}</NextContinuationToken>`
        : '<IsTruncated>false</IsTruncated>';
    return { status: 200, body: `<ListBucketResult xmlns="x">${contents.join('')}${more}</ListBucketResult>` };
  }

  function listUploads(query: URLSearchParams): Answer {
    const all = [...begun]
      .filter(([id]) => uploads.has(id))
      .map(([id, { key, at }]) => ({ id, key, at }))
      .filter(({ key }) => key.startsWith(query.get('prefix') ?? ''))
      .toSorted((one, other) => (`${one.key} ${one.id}` < `${other.key} ${other.id}` ? -1 : 1));
    const [afterKey, afterId] = [query.get('key-marker') ?? '', query.get('upload-id-marker') ?? ''];
    const left = all.filter(({ key, id }) => key > afterKey || (key === afterKey && id > afterId));
    const page = left.slice(0, listed);
    const shown = page.map(
      ({ id, key, at }) =>
        `<Upload><Key>${encoded(key)}</Key><UploadId>${id.replace('&', '&amp;')}</UploadId><Initiated>${new Date(at).toISOString()}</Initiated></Upload>`,
    );
    const last = page.at(-1);
    const more =
      left.length > listed && last !== undefined
        ? `<NextKeyMarker>${encoded(last.key)}</NextKeyMarker><NextUploadIdMarker>${last.id.replace('&', '&amp;')}</NextUploadIdMarker><IsTruncated>true</IsTruncated>`
        : '<IsTruncated>false</IsTruncated>';
    return {
      status: 200,
      body: `<ListMultipartUploadsResult xmlns="x">${more}${shown.join('')}</ListMultipartUploadsResult>`,
    };
  }

  async function serve(request: IncomingMessage): Promise<Answer> {
    const url = new URL(request.url ?? '', `http://${request.headers.host ?? ''}`);
    const body = await buffer(request);
    if (!isSigned(request, url, body)) return refusal(403, 'SignatureDoesNotMatch');
    if (failing.left > 0) {
      failing.left -= 1;
      return refusal(failing.status, failing.code);
    }
    if (hooks.skewed) return refusal(403, 'RequestTimeTooSkewed');
    const [, bucket, ...key] = url.pathname.split('/').map(decodeURIComponent);
    await hooks.before?.(request.method ?? '', key.join('/'), url.searchParams);
    if (bucket !== name) return refusal(404, 'NoSuchBucket');
    return answer(request, key.join('/'), url.searchParams, body);
  }

  const server = createServer((request, response) => {
    serve(request).then(
      ({ status, headers, body }) => {
        if (losing.left > 0 && request.method === losing.method) {
          losing.left -= 1;
          response.destroy();
          return;
        }
        response.writeHead(status, { ...(body === undefined ? {} : { 'content-length': body.length }), ...headers });
        if (request.method !== 'GET' || body === undefined || breaking.left === 0) {
          response.end(request.method === 'HEAD' ? undefined : body);
          return;
        }
        breaking.left -= 1;
        response.write(body.slice(0, body.length / 2), () => response.destroy());
      },
      (error: unknown) => response.destroy(error instanceof Error ? error : undefined),
    );
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return Object.assign(hooks, {
    bucket: { endpoint: `http://127.0.0.1:${port}`, region, bucket: name },
    credentials,
    objects,
    uploads,
    begun,
    failing,
    breaking,
    losing,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}

function refusal(status: number, code: string): Answer {
  return { status, body: `<?xml version="1.0"?><Error><Code>${code}</Code><Message>it says so</Message></Error>` };
}

function tagOf(body: Buffer): string {
  return `"${createHash('md5').update(body).digest('hex')}"`;
}
