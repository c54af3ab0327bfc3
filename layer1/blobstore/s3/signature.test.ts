/** The examples of https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sha256, signedHeaders } from './signature.ts';

const credentials = {
  accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
};
const signing = { credentials, region: 'us-east-1', nowMs: Date.UTC(2013, 4, 24) };
const bucket = 'https://examplebucket.s3.amazonaws.com';

function signatureOf(method: string, path: string, headers: Record<string, string>, body = ''): string | undefined {
  const request = { method, url: new URL(bucket + path), headers, payloadSha256: sha256(body) };
  return /Signature=(\w+)$/.exec(signedHeaders(request, signing)['authorization'] ?? '')?.[1];
}

test('requests are signed as the documented examples are', () => {
  assert.equal(
    signatureOf('GET', '/test.txt', { range: 'bytes=0-9' }),
    'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
  );
  assert.equal(
    signatureOf(
      'PUT',
      '/test%24file.text',
      { date: 'Fri, 24 May 2013 00:00:00 GMT', 'x-amz-storage-class': 'REDUCED_REDUNDANCY' },
      'Welcome to Amazon S3.',
    ),
    '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
  );
  assert.equal(
    signatureOf('GET', '/?lifecycle', {}),
    'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
  );
  assert.equal(
    signatureOf('GET', '/?max-keys=2&prefix=J', {}),
    '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
  );
});
