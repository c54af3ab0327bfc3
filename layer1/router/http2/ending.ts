/** Ends a body with the fields that come after it. */
import { constants } from 'node:http2';
import type { Http2Stream } from 'node:http2';
import type { Fields } from '../exchange.ts';
import { objectOf } from './fields.ts';

/**
 * For a stream that waits for trailers. One whose fields node:http2 does not say is reset: what is thrown here would end the
 * process. `said` is called once they are on their way.
 */
export function endWithTrailers(stream: Http2Stream, trailers: Fields, said?: () => void): void {
  stream.once('wantTrailers', () => {
    if (stream.destroyed || stream.closed) return;
    try {
      stream.sendTrailers(objectOf(trailers));
    } catch {
      stream.close(constants.NGHTTP2_INTERNAL_ERROR);
      return;
    }
    said?.();
  });
  stream.end();
}
