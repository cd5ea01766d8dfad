# The executable of one file on a base without a shell:
# docker build -t sluice . && docker run -p 4310:4310 -v sluice:/data sluice
FROM node:22-bookworm-slim AS build
WORKDIR /sluice
COPY package.json package-lock.json ./
COPY launcher launcher
RUN npm ci --ignore-scripts --omit=dev --no-audit --no-fund
COPY . .
RUN npm run console && npm run build && mkdir /empty

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /sluice/dist/sluice /sluice
COPY --from=build --chown=nonroot:nonroot /empty /data
ENV SLUICE_HOST=0.0.0.0 SLUICE_PORT=4310 SLUICE_DATA=/data
# See ALLOCATOR in launcher/install.mjs.
ENV MIMALLOC_PURGE_HOLES_MIN_INTERVAL=1000
VOLUME /data
EXPOSE 4310
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=6s --start-period=10s CMD ["/sluice", "health"]
ENTRYPOINT ["/sluice"]
CMD ["serve"]
