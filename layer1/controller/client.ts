/** For those who call the controller. */
import { HttpClient } from '@flynn/kit/http-client';

/** `baseUrl` may be a function, so that it follows discovery. The routes are in api.ts. */
export function createControllerClient(options: {
  baseUrl: string | (() => Promise<string>);
  key: string;
  /** For messages, default 'the controller'. */
  name?: string;
  /** For https: the authority it has to be of, as PEM; default: whom everybody trusts. */
  ca?: string;
}): HttpClient {
  return new HttpClient({ ...options, name: options.name ?? 'the controller' });
}
