/** Asks a router how it is. */
import { HttpClient } from '@flynn/kit/http-client';
import { routes } from './api.ts';
import type { Status } from './api.ts';

export type RouterClient = {
  status(options?: { signal?: AbortSignal }): Promise<Status>;
  close(): Promise<void>;
};

export function createRouterClient(options: { baseUrl: string; key: string }): RouterClient {
  const http = new HttpClient({ ...options, name: 'the router' });
  return {
    status: ({ signal } = {}) => http.call(routes.status, {}, { signal }),
    close: () => http.close(),
  };
}
