/** Questions to the management API with their cache, one hook each. */
import { keepPreviousData, QueryClient, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import {
  type Answer,
  ApiError,
  ask,
  askAll,
  askWithTag,
  type AskOptions,
  type Method,
  type Query,
  urlOf,
} from './ask.ts'
import type {
  Account,
  Change,
  Key,
  Model,
  Page,
  Plan,
  Provider,
  ProviderHealth,
  RequestRow,
  Session,
  Speed,
  System,
  Usage,
  User,
} from './answers.ts'

/** A refusal stays one when it is repeated. A server that is not there is asked again, less and less often. */
const canRetry = (count: number, error: Error): boolean =>
  error instanceof ApiError && (error.status === 0 || error.status >= 502) && count < 8

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      retry: canRetry,
      retryDelay: (count) => Math.min(500 * 2 ** count, 15_000),
      staleTime: 5_000,
      refetchOnWindowFocus: true,
      // The browser's idea of being offline is not that of a server on this machine.
      networkMode: 'always',
    },
    mutations: { networkMode: 'always' },
  },
})

export type Options = { enabled?: boolean; refetchInterval?: number | false }

/** One GET. Data of the former query stays until there is new data. */
export const useAsk = <T>(path: string, query: Query = {}, options: Options = {}) =>
  useQuery<T, Error>({
    queryKey: [path, query],
    queryFn: ({ signal }) => ask<T>('GET', path, { query, signal }),
    placeholderData: keepPreviousData,
    meta: { http: urlOf(path, query) },
    ...options,
  })

/** All pages of a list. Data of the former query stays until there is new data. */
export const useAll = <T>(path: string, query: Query = {}, options: Options = {}) =>
  useQuery<Pick<Page<T>, 'data' | 'next'>, Error>({
    queryKey: [path, query, 'all'],
    queryFn: ({ signal }) => askAll<T>(path, { query, signal }),
    placeholderData: keepPreviousData,
    meta: { http: urlOf(path, query) },
    ...options,
  })

/** One thing with its version, for changes of it. */
export const useTagged = <T>(path: string, options: Options = {}) =>
  useQuery<Answer<T>, Error>({
    queryKey: [path, 'tagged'],
    queryFn: ({ signal }) => askWithTag<T>('GET', path, { signal }),
    meta: { http: urlOf(path) },
    ...options,
  })

/** A change. Afterwards everything below one of `touches` is asked for again. */
export function useChange<In, Out = unknown>(
  method: Method,
  pathOf: (input: In) => string,
  touches: readonly string[],
  optionsOf: (input: In) => AskOptions = () => ({}),
) {
  const client = useQueryClient()
  return useMutation<Out, Error, In>({
    mutationFn: (input) => ask<Out>(method, pathOf(input), optionsOf(input)),
    // An answer may be a key's text, which no cache keeps.
    gcTime: 0,
    onSuccess: () =>
      client.invalidateQueries({
        predicate: ({ queryKey }) => touches.some((path) => String(queryKey[0]).startsWith(path)),
      }),
  })
}

export const useSession = () =>
  useQuery<Session | null, Error>({
    queryKey: ['/session'],
    queryFn: async ({ signal }) => {
      try {
        return await ask<Session>('GET', '/session', { signal, isSignIn: true })
      } catch (error) {
        if (error instanceof ApiError && error.status === 401) return null
        throw error
      }
    },
    staleTime: 60_000,
  })

export const useAccounts = (options?: Options) => useAll<Account>('/accounts', {}, options)
export const useKeys = (query: Query = {}, options?: Options) => useAll<Key>('/keys', query, options)
export const useUsers = (options?: Options) => useAsk<Page<User>>('/users', {}, options)
export const useProviders = (options?: Options) => useAsk<Page<Provider>>('/providers', {}, options)
/** The last hour of all providers that are on. */
export const useProviderHealth = (options?: Options) => useAsk<Page<ProviderHealth>>('/health/providers', {}, options)
/** Models that can be used. */
export const useModels = (options?: Options) => useAll<Model>('/models', { on: true }, options)
export const usePlans = (options?: Options) => useAsk<Page<Plan>>('/plans', {}, options)
export const useChanges = (query: Query = {}, options?: Options) => useAsk<Page<Change>>('/changes', query, options)
export const useSystem = (options?: Options) => useAsk<System>('/system', {}, options)
export const useUsage = (query: Query, options?: Options) => useAsk<Usage>('/usage', query, options)
export const useSpeed = (query: Query, options?: Options) => useAsk<Speed>('/speed', query, options)
export const useRequests = (query: Query, options?: Options) => useAsk<Page<RequestRow>>('/requests', query, options)
