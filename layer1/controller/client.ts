/** For those who call the controller. */
import { HttpClient } from '@flynn/kit/http-client';

/** `baseUrl` may be a function, so that it follows discovery. The routes are in api.ts. */
export function createControllerClient(options: {
  baseUrl: string | (() => Promise<string>);
  key: string;
  /** For messages, default 'the controller'. */
  name?: string;
}): HttpClient {
  return new HttpClient({ baseUrl: options.baseUrl, key: options.key, name: options.name ?? 'the controller' });
}
